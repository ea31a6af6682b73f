# Reads a change of subscriptions as JSON from each line, and prints the frame that asks for it in hexadecimal digits.
require "stringio"
require_relative "../courier"

$stdin.each_line do |line|
  facts = JSON.parse(line)
  device = Courier.allocate
  { tls: StringIO.new("".b), changes: [], index: facts["index"] - 1, accepted: 0, state: { "token" => facts["token"] } }
    .each { |name, value| device.instance_variable_set("@#{name}", value) }
  device.change(subscribe: facts["subscribed"], unsubscribe: facts["unsubscribed"], replaces: facts["replaces"])
  puts device.instance_variable_get(:@tls).string.unpack1("H*")
end
