// Imports a Debian package index into the objects of packages.theta, and asks them.
//
// `bifrost veneer --lang cpp examples/packages/packages.theta -o .` makes the stubs.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "bifrost_stubs.hpp"

using stubs::Package;
using stubs::PackageIndex;

/** The number of packages that one transaction imports. */
static constexpr std::size_t AT_ONCE = 250;

static constexpr const char *USAGE =
    "packages_client import FILE | closure NAME | dependents NAME, with BIFROST_URL set "
    "to a server of packages.theta";

/** The fields of a paragraph that are used. */
struct Paragraph {
  std::string name, version, section;
  /** Installed, in KiB. */
  std::int64_t size = 0;
  /** Names that the package stands for. */
  std::vector<std::string> provides;
  /** For each need the names of which any will do, separated by blanks. */
  std::vector<std::string> needs;
};

static std::string trimmed(const std::string &text) {
  const auto begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

static std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

/** The names in a list of relations, as `libc6:any (>= 2.34)`. */
static std::vector<std::string> names(const std::string &relations, char separator) {
  std::vector<std::string> found;
  for (const auto &relation : split(relations, separator)) {
    const std::string word = trimmed(relation);
    const std::string name = word.substr(0, word.find_first_of(" \t:"));
    if (!name.empty()) found.push_back(name);
  }
  return found;
}

static void take(Paragraph &found, const std::string &field, const std::string &value) {
  if (field == "Package") found.name = value;
  if (field == "Version") found.version = value;
  if (field == "Section") found.section = value;
  if (field == "Installed-Size") {
    const bool is_number = value.find_first_not_of("0123456789") == std::string::npos && !value.empty();
    found.size = is_number ? std::stoll(value) : 0;
  }
  if (field == "Provides") found.provides = names(value, ',');
  if (field == "Depends" || field == "Pre-Depends") {
    for (const auto &need : split(value, ',')) {
      std::string any_of;
      for (const auto &name : names(need, '|')) any_of += (any_of.empty() ? "" : " ") + name;
      if (!any_of.empty()) found.needs.push_back(any_of);
    }
  }
}

/** The packages of an index. Paragraphs without a name, and fields that are not used, are passed over. */
static std::vector<Paragraph> paragraphs(std::istream &index) {
  std::vector<Paragraph> all;
  Paragraph found;
  const auto end = [&] {
    if (!found.name.empty()) all.push_back(found);
    found = Paragraph();
  };
  for (std::string line; std::getline(index, line);) {
    if (line.empty()) end();
    // A line that begins with a blank goes on with the field before.
    const auto colon = line.find(':');
    if (colon == std::string::npos || line[0] == ' ' || line[0] == '\t') continue;
    take(found, line.substr(0, colon), trimmed(line.substr(colon + 1)));
  }
  end();
  return all;
}

/** Imports an index, a few hundred packages in each transaction and each crossing. */
static void import_index(const bf::Session &s, const PackageIndex &packages, std::istream &index) {
  const auto all = paragraphs(index);
  for (std::size_t first = 0; first < all.size(); first += AT_ONCE) {
    s.transaction([&] {
      for (std::size_t i = first; i < std::min(first + AT_ONCE, all.size()); ++i) {
        const Paragraph &found = all[i];
        // One name may stand twice, for two architectures: the first is taken.
        s.except([&] {
           auto p = packages.add(found.name, found.version, found.section, found.size);
           for (const auto &name : found.provides) packages.provide(p, name);
           for (const auto &need : found.needs) packages.need(p, need);
         }).when<stubs::signals::Exists>([] {});
      }
    });
  }
  const auto length = packages.length().claim();
  const auto c = s.counters();
  std::cout << length << " packages, " << c.calls << " calls in " << c.crossings << " crossings\n";
}

/** Prints the packages of a loop: one crossing, whatever their number. */
static void list(const bf::Session &s, const std::string &title, const bf::Iter<Package> &found) {
  const auto before = s.counters().crossings;
  auto rows = s.collect(found, [](Package p) { return std::make_tuple(p.name(), p.size()); }).claim();
  std::sort(rows.begin(), rows.end());
  std::int64_t size = 0;
  std::cout << title << ":";
  for (const auto &[name, installed] : rows) {
    std::cout << " " << name;
    size += installed;
  }
  std::cout << "\n"
            << rows.size() << " packages, " << size << " KiB, " << s.counters().crossings - before << " crossing\n";
}

/** The closure once more, by a client that has no method for it: the same walk as a batch, at the server. */
static void by_hand(const bf::Session &s, const Package &p) {
  const auto before = s.counters().crossings;
  auto work = stubs::package_list(s);
  auto seen = stubs::package_set(s);
  auto unmet = s.cell_with<std::int64_t>(0);
  seen.store(p.name(), p);
  work.append(p);
  BF_WHILE(s, work.length() > 0) {
    auto next = work.remove();
    BF_FOREACH(s, next.needs(), stubs::Need need) {
      s.except([&] {
         auto q = need.choice();
         s.if_(!seen.contains(q.name()), [&] {
           seen.store(q.name(), q);
           work.append(q);
         });
       }).when<stubs::signals::Unmet>([&] { unmet.put(unmet.get() + 1); });
    };
  };
  auto count = seen.length();
  auto missing = unmet.get();
  std::cout << "as structures: " << count.claim() << " packages, " << missing.claim() << " needs unmet, "
            << s.counters().crossings - before << " crossing\n";
}

static void run(const std::string &url, const std::string &command, const std::string &argument) {
  auto s = stubs::connect(url);
  auto packages = s.lookup<PackageIndex>("packages");
  if (command == "import") {
    std::ifstream index(argument);
    if (!index) throw std::runtime_error("cannot read " + argument);
    import_index(s, packages, index);
  } else if (command == "closure") {
    auto p = packages.package(argument);
    list(s, argument + " needs", packages.closure(p));
    by_hand(s, p);
  } else if (command == "dependents") {
    auto p = packages.package(argument);
    list(s, "not without " + argument, packages.dependents(p));
  } else {
    throw std::runtime_error(USAGE);
  }
  s.close();
}

int main(int count, char **arguments) {
  const char *url = std::getenv("BIFROST_URL");
  try {
    if (count != 3 || url == nullptr) throw std::runtime_error(USAGE);
    run(url, arguments[1], arguments[2]);
  } catch (const std::exception &error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
