#!lua name=filemap_seen_2
-- Adds URLs to a seen set. A request that is sent again gets the same answers.
--
-- KEYS: the owner's answers; the count of URLs; then the key of each URL.
-- ARGV: the request's id, 32 hexadecimal digits, the first 12 of which are its time in ms; a check
-- of its URLs, 8 digits; the time in ms and the number of requests for which answers are kept;
-- then the item of each URL.
-- Returns '1' for each new URL and '0' for each other, or the reason of a refusal.
--
-- Answers are a list, oldest first: id, check, answers. A request without a new URL is not listed:
-- sent again, it gets the same answers. All keys are in one slot, and the writes of a function are
-- replicated as a whole, so answers and their URLs never exist without each other.

-- As for sets in files (urlindex::idempotent).
local AHEAD_MS = 600000

local function time_of(text)
  return tonumber(string.sub(text, 1, 12), 16)
end

local function told(answers, id, check, keep_requests)
  local last = redis.call('LINDEX', answers, -1)
  if not last or time_of(id) > time_of(last) then
    return nil
  end
  local items = redis.call('LRANGE', answers, 0, -1)
  for nth = #items, 1, -1 do
    if string.sub(items[nth], 1, 32) == id then
      if string.sub(items[nth], 33, 40) ~= check then
        return 'reused'
      end
      return string.sub(items[nth], 41)
    end
  end
  -- Ids of one owner rise, also within a millisecond: an older one may have been dropped.
  if #items >= keep_requests and id < string.sub(items[1], 1, 32) then
    return 'forgotten'
  end
  return nil
end

local function add_by(insert)
  return function(keys, args)
    local id, check, keep_for, keep_requests = args[1], args[2], tonumber(args[3]), tonumber(args[4])
    local clock = redis.call('TIME')
    local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
    if time_of(id) > now + AHEAD_MS then
      return 'ahead'
    end
    local before = told(keys[1], id, check, keep_requests)
    if before then
      return before
    end
    if time_of(id) < now - keep_for then
      return 'forgotten'
    end
    local answers, new = {}, 0
    for nth = 3, #keys do
      if insert(keys[nth], args[nth + 2]) then
        answers[nth - 2] = '1'
        new = new + 1
      else
        answers[nth - 2] = '0'
      end
    end
    answers = table.concat(answers)
    if new > 0 then
      redis.call('INCRBY', keys[2], new)
      local kept = redis.call('RPUSH', keys[1], id .. check .. answers)
      -- One is added, up to two are dropped: an excess after a change of options shrinks over time.
      for _ = 1, 2 do
        if kept > keep_requests or (kept > 1 and time_of(redis.call('LINDEX', keys[1], 0)) < now - keep_for) then
          redis.call('LPOP', keys[1])
          kept = kept - 1
        end
      end
      -- Requests of a clock that is ahead come that much later again.
      redis.call('PEXPIRE', keys[1], keep_for + AHEAD_MS)
    end
    return answers
  end
end

redis.register_function('filemap_seen_2_exact', add_by(function(key, member)
  return redis.call('SADD', key, member) == 1
end))

redis.register_function('filemap_seen_2_bitmap', add_by(function(key, bit)
  return redis.call('SETBIT', key, bit, 1) == 0
end))

redis.register_function('filemap_seen_2_bloom', add_by(function(key, bits)
  local sets = {}
  for bit in string.gmatch(bits, '%d+') do
    sets[#sets + 1] = 'SET'
    sets[#sets + 1] = 'u1'
    sets[#sets + 1] = bit
    sets[#sets + 1] = '1'
  end
  for _, was in ipairs(redis.call('BITFIELD', key, unpack(sets))) do
    if was == 0 then
      return true
    end
  end
  return false
end))
