-- What follows each program: the conversation with `bifrost bench theta`, as in bench.h.
for line in io.lines() do
  local start = os.clock()
  local result = run(assert(tonumber(line)))
  io.write(string.format("%d %d\n", math.floor((os.clock() - start) * 1e9), result))
  io.flush()
end
