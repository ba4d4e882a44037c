;; Plays the bytes of its argument as calls of the imports: a byte for the import and for the way, four words of 32
;; bits as parameters. Half of the addresses and lengths are in the memory, the others are as they come.
(module
  (import "bifrost" "run" (func $run (param i32 i32 i32 i32) (result i32)))
  (import "bifrost" "try_run" (func $try_run (param i32 i32 i32 i32) (result i32)))
  (import "bifrost" "text" (func $text (param i32 i32 i32) (result i32)))
  (import "bifrost" "failure" (func $failure (param i32 i32) (result i32)))
  (import "bifrost" "raise" (func $raise (result i32)))
  (import "bifrost" "fail" (func $fail (param i32 i32) (result i32)))
  (import "bifrost" "release" (func $release (param i32) (result i32)))
  (import "bifrost" "type" (func $type (param i32 i32) (result i32)))
  (import "bifrost" "method" (func $method (param i32 i32) (result i32)))
  (import "bifrost" "routine" (func $routine (param i32 i32) (result i32)))
  (memory (export "memory") 2)

  ;; The parameter number n of the call at an address; in the memory if the way says so.
  (func $word (param $at i32) (param $n i32) (result i32)
    (local $word i32)
    (local.set $word
      (i32.load (i32.add (local.get $at) (i32.add (i32.const 1) (i32.mul (i32.const 4) (local.get $n))))))
    (if (result i32) (i32.ge_u (i32.load8_u (local.get $at)) (i32.const 64))
      (then (i32.and (local.get $word) (i32.const 0x3ff)))
      (else (local.get $word))))

  (func $call (param $at i32) (result i32)
    (local $a i32) (local $b i32) (local $c i32) (local $d i32)
    (local.set $a (call $word (local.get $at) (i32.const 0)))
    (local.set $b (call $word (local.get $at) (i32.const 1)))
    (local.set $c (call $word (local.get $at) (i32.const 2)))
    (local.set $d (call $word (local.get $at) (i32.const 3)))
    (block $9 (block $8 (block $7 (block $6 (block $5 (block $4 (block $3 (block $2 (block $1 (block $0
      (br_table $0 $1 $2 $3 $4 $5 $6 $7 $8 $9
        (i32.rem_u (i32.load8_u (local.get $at)) (i32.const 16))))
      (return (call $run (local.get $a) (local.get $b) (local.get $c) (local.get $d))))
      (return (call $text (local.get $a) (local.get $b) (local.get $c))))
      (return (call $failure (local.get $a) (local.get $b))))
      (return (call $raise)))
      (return (call $release (local.get $a))))
      (return (call $type (local.get $a) (local.get $b))))
      (return (call $method (local.get $a) (local.get $b))))
      (return (call $routine (local.get $a) (local.get $b))))
      (return (call $fail (local.get $a) (local.get $b))))
    ;; Half of the calls: whole commands, which are written somewhere in the bytes.
    (call $try_run (local.get $a) (i32.and (local.get $b) (i32.const 0x38)) (local.get $c) (local.get $d)))

  ;; The bytes are at 0, so that parameters name parts of them. The second argument is an object for the calls. Returns
  ;; the number of calls that were answered, and 1000 times the number of commands that had results.
  (func (export "probe") (param $bytes i32) (param $object i32) (result i64)
    (local $at i32) (local $end i32) (local $answered i64)
    (local.set $end (call $text (local.get $bytes) (i32.const 0) (i32.const 65536)))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
      (if (i32.and (i32.gt_s (call $call (local.get $at)) (i32.const 0))
          (i32.gt_u (i32.rem_u (i32.load8_u (local.get $at)) (i32.const 16)) (i32.const 8)))
        (then (local.set $answered (i64.add (local.get $answered) (i64.const 1000)))))
      (local.set $answered (i64.add (local.get $answered) (i64.const 1)))
      (local.set $at (i32.add (local.get $at) (i32.const 17)))
      (br $next)))
    (local.get $answered)))
