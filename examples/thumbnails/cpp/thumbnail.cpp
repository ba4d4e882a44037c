// Makes thumbnails of pictures by the servers that a trader knows: `thumbnail -o DIR PICTURE...`.
//
// `bifrost veneer --lang cpp examples/thumbnails/thumbnails.theta -o .` makes the stubs.

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

#include "bifrost_stubs.hpp"

namespace fs = std::filesystem;
using stubs::Thumbnails;

static constexpr const char *USAGE = R"(Usage: thumbnail [OPTIONS] PICTURE...

Make small copies of pictures, in PNG, JPEG or PNM, by the servers of a service

  -o, --output DIR   the folder for the copies, which is made if it does not exist [default: thumbnails]
  --side N           the longer side of a copy, in pixels [default: 128]
  --at-once N        pictures that are under way at the same time, 1 to 64, each with a server of its own choice
                     [default: 4]
  --service URL      the service; without a host the traders are those in BIFROST_TRADER
                     [default: trader:///Thumbnails?prefer=spread]
)";

/** The tries of a picture: to make a copy twice does no harm, so a server may be lost on the way. */
static constexpr int TRIES = 5;

struct Args {
  std::vector<fs::path> pictures;
  fs::path output = "thumbnails";
  std::int64_t side = 128;
  std::int64_t at_once = 4;
  std::string service = "trader:///Thumbnails?prefer=spread";
};

static std::int64_t number(const std::string &text) {
  std::int64_t value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc() || end != text.data() + text.size()) throw std::invalid_argument(text + " is no number");
  return value;
}

static Args parse(int count, char **arguments) {
  Args args;
  for (int i = 1; i < count; ++i) {
    const std::string one = arguments[i];
    if (one.rfind("-", 0) != 0) {
      args.pictures.emplace_back(one);
      continue;
    }
    if (++i == count) throw std::invalid_argument(one + " has no value, or is no option");
    if (one == "-o" || one == "--output") {
      args.output = arguments[i];
    } else if (one == "--side") {
      args.side = number(arguments[i]);
    } else if (one == "--at-once") {
      args.at_once = number(arguments[i]);
    } else if (one == "--service") {
      args.service = arguments[i];
    } else {
      throw std::invalid_argument(one + " is no option");
    }
  }
  if (args.pictures.empty()) throw std::invalid_argument("there is no picture");
  if (args.at_once < 1 || args.at_once > 64) throw std::invalid_argument("--at-once is not 1 to 64");
  return args;
}

static bf::Bytes read(const fs::path &picture) {
  std::ifstream stream(picture, std::ios::binary);
  if (!stream) throw std::runtime_error(std::strerror(errno));
  return bf::Bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

/** Makes the copy of a picture. Returns a line for the user. */
static std::string make(bf::Service<Thumbnails> &service, const fs::path &picture, const Args &args) {
  const bf::Bytes bytes = read(picture);
  for (int tries = 1;; ++tries) {
    try {
      const auto [width, height, png] = service.run([&](const bf::Session &, const Thumbnails &thumbnails) {
        auto small = thumbnails.shrink(bytes, args.side);
        // One crossing: all is asked for before the first claim.
        auto wide = small.width(), high = small.height();
        auto copy = small.png();
        return std::make_tuple(wide.claim(), high.claim(), copy.claim());
      });
      const fs::path file = args.output / picture.stem().concat(".png");
      std::ofstream stream(file, std::ios::binary);
      stream.write(reinterpret_cast<const char *>(png.data()), static_cast<std::streamsize>(png.size()));
      if (!stream.flush()) throw std::runtime_error("cannot write " + file.string());
      return picture.string() + ": " + std::to_string(width) + " x " + std::to_string(height) + ", " + file.string();
    } catch (const bf::Lost &) {
      if (tries == TRIES) throw;
    }
  }
}

int main(int count, char **arguments) {
  Args args;
  try {
    args = parse(count, arguments);
    fs::create_directories(args.output);
  } catch (const std::exception &why) {
    std::cerr << "error: " << why.what() << "\n\n" << USAGE;
    return 2;
  }
  std::atomic<std::size_t> next{0}, failed{0};
  std::mutex lock;
  std::map<std::string, int> made;
  // Each thread has a service of its own, and so a session of its own.
  const auto work = [&] {
    auto service = stubs::service<Thumbnails>(args.service);
    for (std::size_t i; (i = next++) < args.pictures.size();) {
      const fs::path &picture = args.pictures[i];
      std::string line;
      bool is_made = false;
      try {
        line = make(service, picture, args);
        is_made = true;
      } catch (const std::exception &why) {
        ++failed;
        line = picture.string() + ": error: " + why.what();
      }
      const std::lock_guard<std::mutex> hold(lock);
      if (is_made) ++made[service.address()];
      std::cout << line << std::endl;
    }
  };
  std::vector<std::thread> threads;
  const auto many = std::min(static_cast<std::size_t>(args.at_once), args.pictures.size());
  for (std::size_t i = 0; i < many; ++i) threads.emplace_back(work);
  for (auto &thread : threads) thread.join();
  for (const auto &[server, copies] : made) std::cerr << copies << " by " << server << "\n";
  return failed == 0 ? 0 : 1;
}
