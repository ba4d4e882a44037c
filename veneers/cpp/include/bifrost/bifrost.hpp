/**
 * @file
 * Bifrost in C++17: programs record calls of typed objects, and send them in batches.
 *
 * A program includes the header that `bifrost veneer --lang cpp` has generated, which includes this one.
 *
 *     auto s = stubs::connect(url);
 *     auto db = s.lookup<stubs::DataBase>("database");
 *     auto eve = db.fetch("eve");                      // recorded: nothing has crossed
 *     eve.touch();
 *     std::cout << eve.visits().claim() << "\n";        // one crossing
 *
 * | file | has |
 * | --- | --- |
 * | cpp/core.hpp | places, counted stubs, errors |
 * | cpp/value.hpp | types, arguments, values that came |
 * | cpp/promise.hpp | promises, objects, cells, iterators |
 * | cpp/session.hpp | sessions, structures, tables, transactions |
 * | cpp/service.hpp | services: servers that traders know |
 * | cpp/async.hpp | coroutines, with C++20 |
 */

#ifndef BIFROST_HPP
#define BIFROST_HPP

#include "cpp/service.hpp"
#include "cpp/session.hpp"

#if defined(__cpp_impl_coroutine) || defined(__cpp_coroutines)
#include "cpp/async.hpp"
#endif

#endif // BIFROST_HPP
