//! Byte streams between processes: shared memory, unix sockets and TCP
