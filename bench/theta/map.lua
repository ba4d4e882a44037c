function run(n)
  local keys = {}
  local key = 1
  for i = 1, n do
    key = key * 16807 % 2147483647
    keys[i] = key
  end
  local places, length = {}, 0
  for i = 1, n do
    places[keys[i]] = i
    length = length + 1
  end
  local sum = 0
  for i = 1, n do sum = sum + places[keys[i]] end
  for i = 1, n do
    if places[keys[i] + 2147483647] then sum = sum + 1 end
  end
  for i = 1, n, 2 do
    places[keys[i]] = nil
    length = length - 1
  end
  for i = 1, n do
    if places[keys[i]] then sum = sum + i end
  end
  return sum + length
end
