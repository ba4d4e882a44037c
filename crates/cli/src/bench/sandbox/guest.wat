;; The loops of `bifrost bench sandbox` as a module, for the types of `bench.theta`.
(module
  (import "bifrost" "run" (func $run (param i32 i32 i32 i32) (result i32)))
  (import "bifrost" "release" (func $release (param i32) (result i32)))
  (import "bifrost" "method" (func $method (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "Probe:nothing")
  (data (i32.const 16) "Records:fetch")

  ;; Writes the head of a `call` to 64: its code, the count and the tags of arguments, the method.
  (func $head (param $flags i64) (param $method i32) (param $receiver i32)
    (i64.store (i32.const 64) (i64.or (local.get $flags)
      (i64.shl (i64.extend_i32_u (local.get $method)) (i64.const 32))))
    (i64.store (i32.const 72) (i64.sub (i64.const 0) (i64.extend_i32_u (local.get $receiver)))))

  (func (export "empty"))

  ;; Calls `nothing` of the probe n times.
  (func (export "nothing_loop") (param $probe i32) (param $n i64)
    (call $head (i64.const 1) (call $method (i32.const 0) (i32.const 13)) (local.get $probe))
    (block $done (loop $next
      (br_if $done (i64.le_s (local.get $n) (i64.const 0)))
      (drop (call $run (i32.const 64) (i32.const 16) (i32.const 128) (i32.const 16)))
      (local.set $n (i64.sub (local.get $n) (i64.const 1)))
      (br $next))))

  ;; Adds, and fetches the record of the user three times, n times over (Zondervan 1995, 7.1.5).
  (func (export "fetch_loop") (param $records i32) (param $user i32) (param $n i64) (result i64)
    (local $sum i64) (local $i i32)
    ;; One argument, a reference: the tag 0.
    (call $head (i64.const 257) (call $method (i32.const 16) (i32.const 13)) (local.get $records))
    (i64.store (i32.const 80) (i64.sub (i64.const 0) (i64.extend_i32_u (local.get $user))))
    (block $done (loop $next
      (br_if $done (i64.le_s (local.get $n) (i64.const 0)))
      (local.set $sum (i64.add (local.get $sum) (i64.const 1)))
      (local.set $i (i32.const 3))
      (loop $fetch
        (drop (call $run (i32.const 64) (i32.const 24) (i32.const 128) (i32.const 16)))
        ;; The result is not needed.
        (drop (call $release (i32.load (i32.const 136))))
        (br_if $fetch (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
      (local.set $n (i64.sub (local.get $n) (i64.const 1)))
      (br $next)))
    (local.get $sum))

  ;; The sum of the numbers from 1 to n, without a call.
  (func (export "sum") (param $n i64) (result i64)
    (local $sum i64)
    (block $done (loop $next
      (br_if $done (i64.le_s (local.get $n) (i64.const 0)))
      (local.set $sum (i64.add (local.get $sum) (local.get $n)))
      (local.set $n (i64.sub (local.get $n) (i64.const 1)))
      (br $next)))
    (local.get $sum))

  (func (export "spin") (loop $l (br $l)))
)
