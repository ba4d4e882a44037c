// BIFROST_URL is a server of cases/programs/actors.theta.

#include "check.hpp"

#include "bifrost_stubs.hpp"

static void actors_answer_and_are_sent_to(const bf::Session &s) {
  auto adder = s.lookup<stubs::Adder>("adder");
  auto one = adder.add(1);
  adder.send().add(10);
  auto value = adder.value(), wrong = adder.add(-5);
  SAME(one.claim(), 1);
  SAME(value.claim(), 11);
  THROWS(stubs::signals::Negative_, wrong.claim(), SAME(std::get<0>(error.values()), -5));
}

int main() {
  actors_answer_and_are_sent_to(stubs::connect(std::getenv("BIFROST_URL")));
  std::cout << "case actors_answer_and_are_sent_to ok\n";
}
