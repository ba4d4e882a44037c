//! Actors whose methods have transactions: each is committed whole or aborted.

#[path = "support/stored.rs"]
mod stored;

use bifrost_engine::{Mode, Run};
use bifrost_runtime::Collect;
use stored::orders::{COUNTER, load};
use stored::stored_output;

#[test]
fn what_is_sent_in_a_transaction_leaves_when_it_is_committed() {
    let text = format!(
        "{COUNTER}Desk = actor
  last: int
  new () make {{last := 0}} end new
  ask (c: Counter) returns (int)
    d: replier[int] := replyto
    transaction
      send c.add(1000)
      d.deliver(7)
      last := 8
    end
  end ask
  last_one () returns (int) reply (last) end last_one
end Desk
main ()
  c: Counter := Counter.new()
  transaction
    send c.add(1)
  end
  print(c.get().unparse())
  begin
    transaction
      send c.add(10)
      x: int := 1 / 0
      print(x.unparse())
    end
  end except when zero: print(\"aborted\") end
  transaction
    for i: int in 1.to(3) do send c.add(100) end
  end
  print(c.get().unparse())
  d: Desk := Desk.new()
  print(d.ask(c).unparse())
  print(d.last_one().unparse())
  print(c.get().unparse())
end main"
    );
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let engine = load(&text, Run::kept(mode));
        for collect in [Collect::Ordinary, Collect::Zeal(1)] {
            let output = stored_output(&engine, collect);
            let lines: Vec<&str> = output.lines().take(6).collect();
            assert_eq!(lines, ["1", "aborted", "301", "7", "8", "1301"], "{mode:?} {collect:?}");
        }
    }
}

#[test]
fn a_transaction_of_an_actor_whose_stack_was_exhausted_is_aborted() {
    let text = "
Tally = type   value () returns (int)   add (n: int) end Tally
module tallies exports new_tally
  T = class implements Tally
    value: int
    add (n: int) value := value + n end add
  end T
  new_tally () returns (Tally) return (T{value := 0}) end new_tally
end tallies
setup () root().insert(\"tally\", new_tally()) end setup
stored () returns (Tally)
  found: any := root().lookup(\"tally\") except when not_found: signal failure(\"nothing\") end
  typecase found when Tally (t): return (t) others: end
  signal failure(\"no tally\")
end stored
deep (n: int) returns (int)
  if n = 0 then return (0) end
  return (deep(n - 1) + 1)
end deep
Desk = actor
  count: int
  new () make {count := 0} end new
  half () returns (string)
    d: replier[string] := replyto
    begin
      transaction
        stored().add(1)
        begin deep(100000000) end except others: end
        stored().add(1)
      end
      d.deliver(\"committed\")
    end except when failure (why: string): d.deliver(why) end
  end half
end Desk
main ()
  d: Desk := Desk.new()
  print(d.half())
  transaction
    print(stored().value().unparse())
  end
end main";
    for mode in [Mode::Compiled, Mode::Interpreted] {
        let output = stored_output(&load(text, Run::kept(mode)), Collect::Ordinary);
        let lines: Vec<&str> = output.lines().take(2).collect();
        let why = "a method may have been interrupted (stack overflow); the transaction can only be aborted";
        assert_eq!(lines, [why, "0"], "{mode:?}");
    }
}
