//! The text form: the same commands for people, one a line.
//!
//! A [`Translator`] stands between a person and a session: it turns lines into the bytes of
//! commands, and replies into lines. It knows the interface, because a method is named by a word
//! and not by a number, and it remembers the values of the names of the conversation. It does no
//! I/O and runs nothing: the server uses it for connections that do not start with
//! [`crate::op::MAGIC`], `bifrost shell` at the other end.
//!
//! The grammar and a transcript are in `docs/spec/wire.md`; [`HELP`] is the short form.

mod answer;
mod compound;
mod explain;
mod lexer;
mod look;
mod parser;
mod print;
mod replies;
mod translate;

pub use explain::{EXPLAINED_BYTES, Explainer, Kept};
pub use translate::{Due, LineError, Translator};

/// Lines as trees, for programs in the text form that are not run line by line.
pub mod tree {
    pub use super::parser::{Expr, ExprKind, Line, Target, parse};
}

/// The answer to `help`.
pub const HELP: &str = "\
$db := lookup database: DataBase   find a well-known object; its type can be omitted
$e := $db.fetch(\"alice\")           call a method; calls can be chained and nested
$p := new_point(1, 2)              call a routine or procedure
? $e.visits(), $n                  run the batch; print these values, and keep all names
flush                              run the batch; print all names
names                              run the batch; print the names of the root directory and their types
list 5 $db.users()                 run the batch; print the values of an iterator, 20 without a number
$c := cell int                     a cell; $c.put(1), $c.get()
$t := rows DataElem, string        a table; emit $t, $e, $e.name() appends a row; ? $t prints it
$p := $x as Perfume                the same object, seen as one of a type; $x is Perfume tests it
commit                             commits the transaction; abort undoes its changes
wait 1000                          waits until others change something read; true, or false after 1000 ms
transaction                        makes the batch a transaction; the server repeats it after a conflict
while $c.get().lt(9) do  ...  end
if $c.full() then  ...  else  ...  end
foreach $e in $db.users() do  ...  end
send $a.step(1)                    a message to an actor, without an answer
break    continue
except  ...  when not_found  ...  when exists($who: string)  ...  others $name  ...  end
procedure twice($n: int) returns int  ...  return $n.mul(2)  ...  end
free $e                            remove a name, and free its object
describe [DataBase]                the types and routines, or one type
limits                             the limits of the session
explain                            the commands of the batch; after a flush those of the last one, and what they used
profile on                         the time, the fuel and the fetches of each command, after each flush; profile off
history    clear                   the exceptions so far; clear them
bye
@3 is the third result of the batch, h5 a handle, # starts a comment";
