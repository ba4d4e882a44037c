local function line(i)
  return "item " .. i .. " costs " .. i * 7 .. ".\n"
end

function run(n)
  local characters, sevens, text = 0, 0, ""
  for i = 1, n do
    local one = line(i)
    if string.sub(one, 1, 6) == "item 7" then sevens = sevens + 1 end
    text = text .. one
    if i % 100 == 0 then
      characters = characters + #text
      text = ""
    end
  end
  return (characters + #text) * 1000000 + sevens
end
