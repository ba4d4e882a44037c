-- A leaf has neither left nor right.
local function new_tree(depth)
  if depth == 0 then return {} end
  return {left = new_tree(depth - 1), right = new_tree(depth - 1)}
end

local function count(tree)
  if not tree.left then return 1 end
  return 1 + count(tree.left) + count(tree.right)
end

function run(n)
  local nodes = count(new_tree(n + 1))
  local long_lived = new_tree(n)
  for depth = 4, n, 2 do
    for _ = 1, 2 ^ (n - depth + 4) do nodes = nodes + count(new_tree(depth)) end
  end
  return nodes + count(long_lived)
end
