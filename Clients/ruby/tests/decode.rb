# Reads a frame in hexadecimal digits from each line, and prints its fields or what is wrong as JSON.
require "stringio"
require_relative "../courier"

def hexadecimal(value) = value.is_a?(Array) ? value.map { |one| hexadecimal(one) } : value.unpack1("H*")

$stdin.each_line(chomp: true) do |line|
  device = Courier.allocate
  device.instance_variable_set(:@tls, StringIO.new([line].pack("H*")))
  puts JSON.generate(device.send(:read, Float::INFINITY).last.transform_values { |value| hexadecimal(value) })
rescue Courier::Ended => e
  wait = device.instance_variable_get(:@wait)
  goodbye = { 0x40 => hexadecimal(e.message), 0x41 => wait && hexadecimal([wait * 1000].pack("N")) }
  puts JSON.generate(line.start_with?("80") ? goodbye.compact : { error: e.message })
end
