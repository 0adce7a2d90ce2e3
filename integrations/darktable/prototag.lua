--[[
Tag pictures with ProtoTag in darktable.

Copy this file to the folder "lua" of darktable's configuration (~/.config/darktable/lua on Linux),
and add the line `require "prototag"` to the file luarc beside that folder. Two buttons appear among
the actions on the selection of the lighttable: "tag with ProtoTag" and "remove ProtoTag's tags".

ProtoTag writes tags to the sidecar of each picture and records there which tags are its own. This
script attaches the same tags in darktable. A tag that you detach in darktable is not added again,
and removing ProtoTag's tags leaves yours. darktable must write sidecar files, as it does by default.

License: BSD-3-Clause, as ProtoTag.
]]

local dt = require "darktable"

dt.configuration.check_version(..., {7, 0, 0}, {8, 0, 0}, {9, 0, 0})

local MODULE = "prototag"
local WINDOWS = dt.configuration.running_os == "windows"

dt.preferences.register(MODULE, "command", "string", "ProtoTag: command",
  "Name or path of the program prototag.", "prototag")
dt.preferences.register(MODULE, "model", "file", "ProtoTag: model",
  "Model file that `prototag train` wrote. Without one, a general vocabulary is used.", "")
dt.preferences.register(MODULE, "options", "string", "ProtoTag: options of annotate",
  "Further options, such as --precision 0.9 or --write estimates.", "")

-- Decode the JSON that ProtoTag prints: one object per line.
local decode_value

local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function decode_string(text, position)
  local parts = {}
  while true do
    local start, stop, plain, mark = text:find('^([^"\\]*)(["\\])', position)
    if not start then error("unfinished text") end
    parts[#parts + 1] = plain
    position = stop + 1
    if mark == '"' then return table.concat(parts), position end
    local escape = text:sub(position, position)
    if escape ~= "u" then
      parts[#parts + 1] = ESCAPES[escape] or escape
      position = position + 1
    else
      local code = tonumber(text:sub(position + 1, position + 4), 16)
      position = position + 5
      local low = text:match("^\\u([dD][c-fC-F]%x%x)", position)
      if code >= 0xD800 and code < 0xDC00 and low then -- a surrogate pair
        code = 0x10000 + (code - 0xD800) * 0x400 + (tonumber(low, 16) - 0xDC00)
        position = position + 6
      end
      parts[#parts + 1] = utf8.char(code)
    end
  end
end

local function decode_members(text, position, closing, named)
  local members = {}
  local first = text:match("^%s*()", position)
  if text:sub(first, first) == closing then return members, first + 1 end
  while true do
    local key = #members + 1
    if named then
      key, position = decode_string(text, text:match('^%s*"()', position))
      position = text:match("^%s*:()", position)
    end
    members[key], position = decode_value(text, position)
    local mark
    mark, position = text:match("^%s*([,%]}])()", position)
    if mark == closing then return members, position end
  end
end

local NULL = {} -- a value that is not nil, so that lists keep their length
local WORDS = { ["true"] = true, ["false"] = false }

decode_value = function(text, position)
  position = text:match("^%s*()", position)
  local first = text:sub(position, position)
  if first == "{" then return decode_members(text, position + 1, "}", true) end
  if first == "[" then return decode_members(text, position + 1, "]", false) end
  if first == '"' then return decode_string(text, position + 1) end
  local word, stop = text:match("^([%w.+-]+)()", position)
  if WORDS[word] ~= nil then return WORDS[word], stop end
  return tonumber(word) or NULL, stop
end

local function quoted(argument)
  if WINDOWS then return '"' .. argument:gsub('"', '""') .. '"' end
  return "'" .. argument:gsub("'", "'\\''") .. "'"
end

local function path_of(image)
  return image.path .. (WINDOWS and "\\" or "/") .. image.filename
end

-- Run a subcommand on the files of images, and return the objects that it printed and its errors.
local function run(subcommand, images)
  local input, output, errors = os.tmpname(), os.tmpname(), os.tmpname()
  local list = assert(io.open(input, "w"))
  local listed = {}
  for _, image in ipairs(images) do
    local path = path_of(image)
    if not listed[path] then -- duplicates in darktable share a file
      listed[path] = true
      list:write(path, "\n")
    end
  end
  list:close()
  local command = quoted(dt.preferences.read(MODULE, "command", "string")) .. " " .. subcommand
  command = command .. " - --json < " .. quoted(input)
  command = command .. " > " .. quoted(output) .. " 2> " .. quoted(errors)
  if WINDOWS then command = '"' .. command .. '"' end
  local code = dt.control.execute(command) -- darktable stays usable meanwhile
  local results = {}
  for line in io.lines(output) do
    local ok, result = pcall(decode_value, line, 1)
    if ok and type(result) == "table" and result.path then results[#results + 1] = result end
  end
  local file = assert(io.open(errors))
  local messages = file:read("a")
  file:close()
  for _, name in ipairs({ input, output, errors }) do os.remove(name) end
  return results, messages, code
end

-- Attach and detach in darktable what ProtoTag has changed in the sidecars.
local function apply(results, images)
  local by_path = {}
  for _, image in ipairs(images) do
    local path = path_of(image)
    by_path[path] = by_path[path] or {}
    table.insert(by_path[path], image)
  end
  local n_added, n_removed = 0, 0
  for _, result in ipairs(results) do
    for _, image in ipairs(by_path[result.path] or {}) do
      for _, name in ipairs(result.added or {}) do
        dt.tags.attach(dt.tags.create(name), image)
        n_added = n_added + 1
      end
      for _, name in ipairs(result.removed or {}) do
        local tag = dt.tags.find(name)
        if tag then
          dt.tags.detach(tag, image)
          n_removed = n_removed + 1
        end
      end
    end
  end
  return n_added, n_removed
end

local function report(what, n_images, n_added, n_removed, messages, code)
  -- 3: some pictures failed, all others are done.
  if code ~= 0 and code ~= 3 then
    dt.print("ProtoTag failed: " .. (messages:match("[^\n]+") or ("exit code " .. tostring(code))))
    dt.print_error(messages)
    return
  end
  local text = string.format("ProtoTag %s %d images: %d tags added, %d removed", what, n_images,
    n_added, n_removed)
  if code == 3 then text = text .. "; some failed: " .. (messages:match("[^\n]+") or "") end
  dt.print(text)
  dt.print_log(messages)
end

local function annotate(images)
  local subcommand = "annotate --write-xmp --sidecar full --quiet"
  local model = dt.preferences.read(MODULE, "model", "file")
  if model ~= "" then subcommand = subcommand .. " --model " .. quoted(model) end
  subcommand = subcommand .. " " .. dt.preferences.read(MODULE, "options", "string")
  dt.print(string.format("ProtoTag is looking at %d images", #images))
  local results, messages, code = run(subcommand, images)
  local n_added, n_removed = apply(results, images)
  report("tagged", #images, n_added, n_removed, messages, code)
end

local function untag(images)
  local results, messages, code = run("untag", images)
  local n_added, n_removed = apply(results, images)
  report("untagged", #images, n_added, n_removed, messages, code)
end

local function action(name, label, tooltip, work)
  local function started(_, images)
    if #images == 0 then
      dt.print("Select images first.")
      return
    end
    work(images)
  end
  dt.gui.libs.image.register_action(MODULE .. "_" .. name, label, started, tooltip)
  dt.register_event(MODULE .. "_" .. name, "shortcut",
    function() started(nil, dt.gui.action_images) end, label)
end

action("annotate", "tag with ProtoTag", "Add the tags of ProtoTag to the selected images.", annotate)
action("untag", "remove ProtoTag's tags", "Remove what ProtoTag added; your own tags stay.", untag)

return { annotate = annotate, untag = untag }
