// The file server of `bifrost bench files` and its client, without the system that carries calls.
//
// `Folder` has the operations of the server, `Counts` what it counts, `Client` the ways to copy a
// file. `omniorb.cpp` and `grpc.cpp` include it, and add their calls. Both are programs with these
// arguments and lines:
//
//   serve ADDRESS FOLDER TASKS     prints `ready WHERE`, ends when its input does
//     counts    ->  taken, sums of queue lengths and of active tasks, nanoseconds waited and run,
//                   processor time in nanoseconds; `-` for a figure that the system does not have
//   client WHERE NAME PATH BLOCK   prints `ready`, ends when its input does
//     check                     ->  checked
//     single COMPUTE BLOCK      ->  done NANOSECONDS CALLS PROCESSOR
//     whole, flight N, stream   ->  the same
//     null N                    ->  the same
//   version                        prints the version of the system
//   A failure is the line `failed`, with the reason.
//
// PATH is the file NAME of the server's folder: the client compares its copy with it, after the
// time was taken. Times COMPUTE and BLOCK are microseconds.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

// Reads of more bytes are cut, and more open files are refused.
constexpr int64_t READ_BYTES_MAX = 64 << 20;
constexpr size_t OPEN_FILES_MAX = 1024;

inline int64_t clock_ns(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}
inline int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }
inline int64_t processor_ns() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

// Processor time and a sleep before a read: the simulated work of `bifrost bench blocking`.
struct Slow {
  int compute_us = 0;
  int block_us = 0;

  void run() const {
    if (compute_us > 0) {
      int64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + compute_us * 1000LL;
      while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until) {
      }
    }
    if (block_us > 0) {
      timespec rest{block_us / 1'000'000, block_us % 1'000'000 * 1000L};
      while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
      }
    }
  }
};

// The end of an operation that failed: there is no such file, or it is refused.
struct Failure {
  bool is_refused;
  std::string text;
};

// The files of a folder.
class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {}

  int32_t open(const std::string& name, const std::string& mode) {
    bool is_outside = name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos;
    if (is_outside || name.find('\0') != std::string::npos) throw Failure{true, name + " is not in the folder"};
    int flags = mode == "r" ? O_RDONLY : mode == "w" ? O_RDWR | O_CREAT | O_TRUNC : mode == "rw" ? O_RDWR : -1;
    if (flags < 0) throw Failure{true, "a mode is r, w or rw"};
    std::lock_guard<std::mutex> held(lock_);
    if (open_.size() >= OPEN_FILES_MAX) throw Failure{true, "too many open files"};
    int descriptor = ::open((path_ + "/" + name).c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0) throw Failure{errno != ENOENT, name + ": " + std::strerror(errno)};
    open_[++last_] = std::make_shared<File>(descriptor);
    return last_;
  }

  // Reads up to so many bytes at a place; at -1 where the last `seek` or such a read ended.
  std::string read(int32_t number, int64_t at, int64_t most, const Slow& slow) {
    slow.run();
    auto file = find(number);
    std::string bytes(size_t(std::max<int64_t>(0, std::min(most, READ_BYTES_MAX))), '\0');
    std::unique_lock<std::mutex> held(file->lock, std::defer_lock);
    if (at < 0) held.lock();
    ssize_t count = pread(file->descriptor, bytes.data(), bytes.size(), at < 0 ? file->place : at);
    if (count < 0) throw Failure{true, std::strerror(errno)};
    if (at < 0) file->place += count;
    bytes.resize(size_t(count));
    return bytes;
  }

  int32_t write(int32_t number, int64_t at, const char* bytes, size_t size) {
    auto file = find(number);
    std::unique_lock<std::mutex> held(file->lock, std::defer_lock);
    if (at < 0) held.lock();
    ssize_t count = pwrite(file->descriptor, bytes, size, at < 0 ? file->place : at);
    if (count < 0) throw Failure{true, std::strerror(errno)};
    if (at < 0) file->place += count;
    return int32_t(count);
  }

  // Sets the place of reads and writes at -1; -1 is the end. Returns it.
  int64_t seek(int32_t number, int64_t to) {
    auto file = find(number);
    std::lock_guard<std::mutex> held(file->lock);
    struct stat status;
    if (fstat(file->descriptor, &status) != 0) throw Failure{true, std::strerror(errno)};
    return file->place = to < 0 ? int64_t(status.st_size) : to;
  }

  void close(int32_t number) {
    find(number);
    std::lock_guard<std::mutex> held(lock_);
    open_.erase(number);
  }

  std::vector<std::string> list() {
    std::vector<std::string> names;
    std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path_.c_str()), closedir);
    if (!folder) throw Failure{true, std::strerror(errno)};
    while (auto* entry = readdir(folder.get()))
      if (entry->d_type == DT_REG) names.push_back(entry->d_name);
    return names;
  }

 private:
  struct File {
    explicit File(int descriptor) : descriptor(descriptor) {}
    ~File() { ::close(descriptor); }
    File(const File&) = delete;
    int descriptor;
    std::mutex lock;
    int64_t place = 0;
  };

  std::shared_ptr<File> find(int32_t number) {
    std::lock_guard<std::mutex> held(lock_);
    auto found = open_.find(number);
    if (found == open_.end()) throw Failure{false, "there is no open file " + std::to_string(number)};
    return found->second;
  }

  std::string path_;
  std::mutex lock_;
  std::map<int32_t, std::shared_ptr<File>> open_;
  int32_t last_ = 0;
};

// The counts of a server since its start, as the paper defines QLENGTH and NACTIVE.
struct Counts {
  std::mutex lock;
  int64_t taken = 0, queue_sum = 0, active_sum = 0, waited_ns = 0, ran_ns = 0;
  int64_t waiting = 0, active = 0;
  bool has_queue = false;

  // An invocation is put into the central queue.
  void queued() {
    has_queue = true;
    queue_sum += waiting++;
  }
  // A task takes an invocation, `since` when it was queued; 0 if there is no queue to see.
  int64_t began(int64_t since) {
    int64_t now = now_ns();
    if (since != 0) {
      waited_ns += now - since;
      waiting--;
    }
    taken++;
    active_sum += active++;
    return now;
  }
  void ended(int64_t began) {
    ran_ns += now_ns() - began;
    active--;
  }
  std::string line() {
    std::lock_guard<std::mutex> held(lock);
    std::ostringstream text;
    text << taken << ' ';
    has_queue ? text << queue_sum : text << '-';
    text << ' ' << active_sum << ' ';
    has_queue ? text << waited_ns : text << '-';
    text << ' ' << ran_ns << ' ' << processor_ns();
    return text.str();
  }
};

// A program that prints `ready`, and answers lines until its input ends.
template <class Answer>
void answer_lines(const std::string& ready, Answer answer) {
  std::cout << ready << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::string said;
    try {
      said = answer(line);
    } catch (const Failure& failure) {
      said = "failed " + failure.text;
    } catch (const std::exception& error) {
      said = std::string("failed ") + error.what();
    }
    std::cout << said << std::endl;
  }
}

inline void answer_counts(const std::string& where, Counts& counts) {
  answer_lines("ready " + where, [&](const std::string&) { return counts.line(); });
}

// A client: the calls of a system, and the ways to copy a file with them.
class Client {
 public:
  virtual ~Client() = default;
  virtual int32_t open(const std::string& name, const std::string& mode) = 0;
  // Appends what it reads.
  virtual void read(int32_t file, int64_t at, int64_t most, const Slow& slow, std::string& to) = 0;
  virtual int32_t write(int32_t file, int64_t at, const std::string& bytes) = 0;
  virtual int64_t seek(int32_t file, int64_t to) = 0;
  virtual void close(int32_t file) = 0;
  virtual std::vector<std::string> list() = 0;
  virtual void nothing() = 0;
  // Reads with so many calls under way; in one call that answers in parts. Returns the calls.
  virtual int64_t flight(int32_t, int64_t size, int64_t block, int depth, std::string& to) {
    throw Failure{true, "this system has no calls that do not wait"};
  }
  virtual int64_t stream(int32_t, int64_t size, int64_t block, std::string& to) {
    throw Failure{true, "this system has no calls that answer in parts"};
  }

  void run(const std::string& name, const std::string& path, int64_t block) {
    std::ifstream file(path, std::ios::binary);
    std::string expected((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    answer_lines("ready", [&](const std::string& line) { return answer(line, name, expected, block); });
  }

 private:
  std::string answer(const std::string& line, const std::string& name, const std::string& expected, int64_t block) {
    std::istringstream words(line);
    std::string way;
    words >> way;
    if (way == "check") return check(name, expected, block);
    std::vector<int> numbers;
    for (int number; words >> number;) numbers.push_back(number);
    numbers.resize(2);
    std::string copy;
    copy.reserve(expected.size());
    int64_t calls = 0, size = int64_t(expected.size());
    int64_t processor = processor_ns(), began = now_ns();
    if (way == "null") {
      for (; calls < numbers[0]; calls++) nothing();
    } else {
      int32_t file = open(name, "r");
      if (way == "single") {
        for (; int64_t(copy.size()) < size; calls++) {
          size_t before = copy.size();
          read(file, int64_t(before), block, Slow{numbers[0], numbers[1]}, copy);
          if (copy.size() == before) throw Failure{true, "the file is too short"};
        }
      } else if (way == "whole") {
        read(file, 0, size, Slow(), copy), calls = 1;
      } else if (way == "flight") {
        calls = flight(file, size, block, std::max(1, numbers[0]), copy);
      } else if (way == "stream") {
        calls = stream(file, size, block, copy);
      } else {
        throw Failure{true, "there is no way " + way};
      }
      close(file);
      calls += 2;
    }
    int64_t took = now_ns() - began, used = processor_ns() - processor;
    if (way != "null" && copy != expected) throw Failure{true, "the copy is not the file"};
    std::ostringstream text;
    text << "done " << took << ' ' << calls << ' ' << used;
    return text.str();
  }

  // Uses each operation once, and a name that must be refused.
  std::string check(const std::string& name, const std::string& expected, int64_t block) {
    bool is_listed = false;
    for (auto& listed : list()) is_listed |= listed == name;
    int32_t file = open(name, "r");
    if (!is_listed || seek(file, -1) != int64_t(expected.size())) throw Failure{true, "the file is another one"};
    close(file);
    std::string part = expected.substr(0, size_t(block)), again;
    file = open(name + ".check", "w");
    if (write(file, -1, part) != int32_t(part.size()) || seek(file, 1) != 1) throw Failure{true, "nothing is written"};
    read(file, -1, block, Slow(), again);
    close(file);
    if (again != part.substr(1)) throw Failure{true, "another text was read than written"};
    try {
      open("../" + name, "r");
    } catch (const Failure& failure) {
      if (failure.is_refused) return "checked";
    }
    throw Failure{true, "a file outside the folder was not refused"};
  }
};

inline int usage(const char* program) {
  std::cerr << "usage: " << program << " serve ADDRESS FOLDER TASKS | client WHERE NAME PATH BLOCK" << std::endl;
  return 2;
}
