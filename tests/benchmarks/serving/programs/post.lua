-- wrk: POST the file $BODY with the header lines of the file $HEADERS, unchanged, with every request
local file = assert(io.open(os.getenv("BODY"), "rb"))
wrk.method, wrk.body = "POST", file:read("*a")
file:close()
for line in io.lines(os.getenv("HEADERS")) do
  local name, value = line:match("^(.-): (.*)$")
  if name then wrk.headers[name] = value end
end

function done(summary, latency, _)
  local failed = summary.errors
  io.write(string.format("RESULT %d %d %.1f %.1f %d\n", summary.requests, summary.duration, latency:percentile(50),
    latency:percentile(99), failed.connect + failed.read + failed.write + failed.status + failed.timeout))
end
