# Reads how attempts ended, a line for each series, and prints the next address after each, with `!` if it is tried at
# once: COUNT [answered|failed|lost|silent|said]...
require_relative "../courier"

$stdin.each_line(chomp: true) do |line|
  count, *ends = line.split
  places = Array.new(count.to_i) { |place| [place.to_s, 0] }
  courier = Courier.new(places, 0, "", ARGV[0], [])
  steps = ends.filter_map do |name|
    if name == "answered"
      courier.instance_variable_set(:@home, courier.instance_variable_get(:@places).first)
      next
    end
    error = (name == "said" ? Courier::Said : Courier::Ended).new(name == "silent" ? "silence" : name)
    is_at_once = courier.send(:another?, error, %w[lost silent].include?(name))
    courier.instance_variable_get(:@places).first.first + (is_at_once ? "!" : "")
  end
  puts steps.join(" ")
end
