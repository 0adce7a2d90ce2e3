-- Drives the script prototag.lua inside darktable, as a person would by its buttons.
-- The test replaces the words in capitals.
local dt = require "darktable"
local prototag = require "prototag"

dt.preferences.write("prototag", "command", "string", "COMMAND")
dt.preferences.write("prototag", "model", "file", "MODEL")
dt.preferences.write("prototag", "options", "string", "--top 2")

local out = assert(io.open("OUTPUT", "w"))

local function tags_of(image)
  local names = {}
  for _, tag in ipairs(dt.tags.get_tags(image)) do
    if tag.name:sub(1, 10) ~= "darktable|" then names[#names + 1] = tag.name end
  end
  table.sort(names)
  return table.concat(names, ";")
end

local function tell(step, images)
  dt.control.sleep(500) -- darktable writes sidecars in the background
  for _, image in ipairs(images) do
    local file = io.open(image.sidecar)
    local text = file and file:read("a") or ""
    if file then file:close() end
    out:write(step, "\t", image.filename, "\t", tags_of(image), "\t", text:gsub("%s+", " "), "\n")
  end
end

local function work()
  dt.database.import("PHOTOS")
  for _ = 1, 100 do
    if #dt.database >= 3 then break end
    dt.control.sleep(100)
  end
  local images = {}
  for number = 1, #dt.database do images[number] = dt.database[number] end
  table.sort(images, function(a, b) return a.filename < b.filename end)
  dt.tags.attach(dt.tags.create("mine|own"), images[1])
  tell("imported", images)
  prototag.annotate(images)
  tell("tagged", images)
  prototag.annotate(images)
  tell("again", images)
  dt.tags.detach(dt.tags.find("striped"), images[1])
  dt.control.sleep(500)
  prototag.annotate(images)
  tell("corrected", images)
  prototag.untag(images)
  tell("untagged", images)
end

dt.control.dispatch(function()
  local ok, problem = pcall(work)
  out:write("end\t", tostring(ok), "\t", tostring(problem), "\n")
  out:close()
end)
