# Reads how attempts ended, a line for each series, and prints the next address after each, with `!` if it is tried at
# once: COUNT [answered|hinted|unhinted|failed|lost|silent|said]... The hint is address `h`.
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
    if name.end_with?("hinted")
      courier.send(:follow, name == "hinted" ? "h:1" : nil)
      next
    end
    error = (name == "said" ? Courier::Said : Courier::Ended).new(name == "silent" ? "silence" : name)
    is_at_once = courier.send(:another?, error, %w[lost silent].include?(name))
    is_at_hint, places = %i[@is_at_hint @places].map { courier.instance_variable_get(_1) }
    (is_at_hint ? "h" : places.first.first) + (is_at_once ? "!" : "")
  end
  puts steps.join(" ")
end
