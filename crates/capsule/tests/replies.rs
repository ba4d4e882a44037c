//! Who waits for whom: replies that are copied, dropped or handled, and who makes way for others (sections 10.4 and 10.11 of the definition).

#[path = "support/orders.rs"]
mod orders;

use std::sync::Arc;

use bifrost_capsule::Space;
use bifrost_capsule::nodes::Nodes;
use bifrost_engine::{Engine, Mode};
use bifrost_runtime::Limits;
use orders::{load, prints};

/// Runs `main`, which takes nothing, on a node whose turns end. How it ended, and what was printed.
fn on_a_node(engine: &Arc<Engine>) -> (Result<(), String>, String) {
    let space = Space::new(engine.clone(), Limits::default()).expect("there is memory for a heap");
    let nodes = Nodes::new(space, 1, Limits::default(), |_| {}).expect("there are means for a node");
    let main = engine.find_entry("main", 0).expect("the program has one");
    let said = nodes.run(|space| {
        space.capture_output();
        let mut cx = space.lock();
        // SAFETY: the context runs this engine's image, and `main` takes nothing.
        let ended = unsafe { engine.call(&mut cx, main, &[]) };
        (ended.map(|_| ()).map_err(|raised| raised.to_string()), cx.take_output())
    });
    said.expect("the node has ended")
}

#[test]
fn a_reply_that_is_copied_or_dropped_is_waited_for() {
    let text = "Half = actor
  n: int
  new () make {n := 0} end new
  of (k: int) returns (int) signals (odd (int))
    n := n + 1
    if k // 2 = 1 then signal odd(k) end
    reply (k / 2)
  end of
  count () returns (int) reply (n) end count
end Half
Log = actor
  lines: string
  half: Half
  new (h: Half) make {lines := \"\", half := h} end new
  note (k: int) returns (int)
    lines := lines || k.unparse()
    reply (k)
  end note
  slow (k: int) returns (int)
    x: int := half.of(2 * k)
    lines := lines || x.unparse()
    reply (x)
  end slow
  get () returns (string) reply (lines) end get
end Log
Other = actor
  run (l: Log) returns (string)
    l.slow(1)
    (l.note(2))
    l.slow(3)
    reply (l.get())
  end run
end Other
main ()
  h: Half := Half.new()
  x: int := h.of(8)
  y: int := x
  print(x.unparse() || y.unparse())
  x := h.of(20)
  y := x
  x := h.of(22)
  z: int := 0
  w: int := 0
  z, w := x, y
  print(((x.unparse() || y.unparse()) || z.unparse()) || w.unparse())
  a: array[int] := array_fill[int](1, 2, 0)
  x := h.of(30)
  a[1] := x
  print(a[1].unparse() || x.unparse())
  begin h.of(3) end except when odd (n: int): print(\"dropped \" || n.unparse()) end
  x := h.of(5) except when odd (n: int): print(\"odd \" || n.unparse()) end
  v: int := 0
  v := h.of(7) except when odd (n: int): v := n end
  print(v.unparse())
  while true do
    begin
      x := h.of(9)
      if y > 0 then break end
    end except when odd (n: int): print(\"left \" || n.unparse()) end
    break
  end
  print((Other.new()).run(Log.new(h)))
  print(h.count().unparse())
end main";
    prints(text, "44\n11101110\n1515\ndropped 3\nodd 5\n7\nleft 9\n123\n10\n");
}

#[test]
fn a_loop_that_counts_makes_way_for_others() {
    let text = "Counting = actor
  run (n: int)
    sum: int := 0
    for i: int in 1.to(n) do sum := sum + i // 3 end
    for i: int in 1.to_by(n, 2) do sum := sum + i // 3 end
    print(\"counted\")
  end run
end Counting
Other = actor
  say (text: string) print(text) end say
end Other
main ()
  c: Counting := Counting.new()
  o: Other := Other.new()
  send c.run(STEPS)
  send o.say(\"others\")
end main";
    for (mode, steps) in [(Mode::Compiled, "400000000"), (Mode::Interpreted, "2000000")] {
        let engine = load(&text.replace("STEPS", steps), mode);
        assert_eq!(on_a_node(&engine), (Ok(()), "others\ncounted\n".to_owned()), "{mode:?}");
    }
}

#[test]
fn time_passes_for_who_waits_beside_work() {
    let text = "Busy = actor
  stopped: bool
  new () make {stopped := false} end new
  step () if ~stopped then send self.step() end end step
  stop () stopped := true end stop
end Busy
Late = actor
  ring () print(\"rung\") end ring
  run (b: Busy, ms: int)
    wait
      when ring (): print(\"too early\")
      after ms: print(\"late\")
    end
    send b.stop()
  end run
end Late
main ()
  b: Busy := Busy.new()
  l: Late := Late.new()
  send l.run(b, 2)
  send b.step()
end main";
    prints(text, "late\n");
}
