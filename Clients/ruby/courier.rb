#!/usr/bin/env ruby
# A device of the Apus push notification service. As a program:
# courier.rb HOST[,HOST]... PORT AUTHORITY IDENTITY TOPIC [CODE [CHANNEL]], with `-` for no code
%w[digest json openssl socket timeout].each { |library| require library }

class Courier
  SSL, X509, PKey = OpenSSL::SSL, OpenSSL::X509, OpenSSL::PKey
  Ended = Class.new(StandardError) # The connection is over.
  Said = Class.new(Ended) # The service said so, and would at each of its addresses.
  Refused = Class.new(StandardError) # Waiting does not help.
  LOST = [Ended, IOError, SocketError, SystemCallError, Timeout::Error, SSL::SSLError].freeze
  # The commands that a device reads, with the fields that each must have.
  NEEDED = { 0x08 => [1, 4, 5, 6, 8, 10], 0x0a => [1, 2, 3, 4], 0x0d => [], 0x12 => [1, 3], 0x1d => [1, 4], 0x80 => [],
             0x82 => [0x40], 0x84 => [0x40], 0x85 => [0x44] }.freeze

  # `identity` is the file with the device's key and, once it has them, its certificates. `hosts` is a name, or several
  # at which the service is, as [NAME, PORT] if the port is another one.
  def initialize(hosts, port, authority, identity, topics, code: nil, keep_alive: 900)
    @authority, @identity, @code, @keep_alive, @changes, @index = authority, identity, code, keep_alive, [], 0
    @places, @untried = [*hosts].map { |host| [*host, port].first(2) }, [*hosts].size - 1 # The next address is first.
    @home = @places.first # The one that worked last.
    @topics, @tokens, @backoff = topics.to_h { |topic| [Digest::SHA1.digest(topic), topic] }, {}, 1
    replace(identity, PKey::EC.generate("prime256v1").private_to_pem) unless File.exist?(identity)
    @state = File.exist?("#{identity}.state") ? JSON.parse(File.read("#{identity}.state")) : { "seen" => [] }
  end

  # Subscribes to channels and ends subscriptions: ids in base64, by topic for Live Activities. `replaces` ends all that
  # are not in `subscribe`. Without anything it asks for the list. A :subscriptions event follows, when the service has
  # stored it. Before `run`, or in its block.
  def change(subscribe: {}, unsubscribe: {}, replaces: false)
    topics = (subscribe.keys | unsubscribe.keys).map do |topic|
      part(2, part(1, topic) + marks(2, subscribe[topic]) + marks(3, unsubscribe[topic]))
    end
    @changes << "\x08\1".b + topics.join + (replaces ? "\x18\1" : "")
    ask if @accepted && @changes.one?
  end

  # Yields events until the service refuses the device. A notification is acknowledged when the block has returned.
  def run(&block)
    loop do
      @wait = @accepted = nil
      session(&block)
    rescue *LOST => e
      raise Refused, e.message if e.message.match?(/alert (certificate revoked|unknown ca)/)
      @wait = 300 if e.message.include?("alert certificate expired") # The service's clock may be wrong.
      @backoff = 1 if (is_steady = @accepted && now - @accepted >= 30)
      seconds = another?(e, is_steady) ? 0 : @wait || rand(@backoff / 2.0..@backoff)
      @backoff = @wait ? 1 : [@backoff * 2, 300].min if @wait || seconds > 0
      @accepted = nil
      yield :ended, { reason: e.message, seconds: }
      sleep seconds
    end
  end

  private

  # Chooses the next address. Whether to try it at once: a round tries each once, begins with the one that the service
  # named or else with the one that worked, and ends with a wait. After a silence, for which the network may be the cause,
  # the same address is first.
  def another?(error, is_steady)
    @untried, @is_hint_spent = @places.size - 1, @is_at_hint if is_steady
    return restart && false if @wait || error.is_a?(Said)
    return restart && (@places.size > 1 || @is_at_hint) if is_steady && error.message == "silence"
    return !(@is_at_hint = @hint = nil) if @is_at_hint
    return @is_at_hint = @is_hint_spent = true if @hint && !@is_hint_spent
    return restart && false if @untried == 0
    (@untried -= 1) && @places.rotate!
  end

  def restart
    @untried, @is_at_hint, @is_hint_spent = @places.size - 1, !!@hint, !!@hint
    @places.rotate!(@places.index(@home))
  end

  # HOST:PORT, where the next connection begins.
  def follow(place)
    host, port = text(place).match(/\A\[?([^\]]+?)\]?:(\d{1,5})\z/)&.captures
    @hint = host ? [host, port] : (@hint if @is_at_hint)
  end

  def session(&block)
    pem, context = File.read(@identity), SSL::SSLContext.new
    @key, chain = PKey.read(pem), pem.include?("CERTIFICATE") ? X509::Certificate.load(pem) : []
    context.set_params(ca_file: @authority, alpn_protocols: ["apus-courier/1"], min_version: :TLS1_2)
    context.add_certificate(chain.first, @key, chain.drop(1)) if chain.any?
    @tls = SSL::SSLSocket.new(Socket.tcp(*(@is_at_hint ? @hint : @places.first), connect_timeout: 10), context)
    @tls.hostname, @tls.sync_close, @tls.sync = @places.first.first, true, false
    Timeout.timeout(10) { @tls.connect }
    chain.any? ? serve(chain.first, &block) : enrol
  ensure
    @tls&.sysclose # Unlike close, this waits for nothing.
  end

  def write(command, fields)
    body = fields.compact.map { |id, value| [id, value.bytesize, value].pack("Cna*") }.join
    Timeout.timeout(30) { @tls.write([command, body.bytesize, body].pack("CNa*")) }
    @written = now
  end

  # The command and fields of the next frame; nil if none begins until then. An unknown command has no fields.
  def read(deadline)
    Timeout.timeout(30, Ended) { @tls.flush } # What was written since goes in one piece.
    Timeout.timeout([deadline - now, 0.001].max) { @tls.eof? }
    command, length = Timeout.timeout(30, Ended) { @tls.read(5) }&.unpack("CN")
    raise Ended, "closed" unless length
    raise Ended, "malformed frame" if command == 0 || length > 65_536
    body, fields = Timeout.timeout(30, Ended) { @tls.read(length) }.to_s, {}
    until body.empty? || !NEEDED[command]
      id, size = body.unpack("Cn")
      raise Ended, "malformed field" unless size && body.bytesize >= 3 + size
      value = body.slice!(0, 3 + size).byteslice(3..)
      fields[id] = id == 0x43 ? [*fields[id], value] : value # Only certificates repeat.
    end
    raise Ended, "missing field" if NEEDED[command]&.any? { |field| !fields[field] }
    return command, fields unless command == 0x80
    @wait = fields[0x41] && [number(fields[0x41]) / 1000.0, 300].min
    raise Said, text(fields[0x40])
  rescue Timeout::Error # and so nil.
  end

  def enrol
    write(0x81, 0x40 => @code, 0x41 => request)
    command, fields = read(now + 40)
    raise Ended, "no answer" unless command == 0x82
    @home = @places.first
    return if install(fields[0x43])
    @wait = number(fields[0x44])
    is_final = number(fields[0x40]) == 2 && ![3, 4, 7].include?(number(fields[0x41])) # These pass.
    raise is_final ? Refused : Ended, text(fields[0x42])
  end

  def serve(certificate, &block)
    write(0x07, 1 => token, 2 => "\1", 5 => "\0\0\0\x41")
    command, fields = read(now + 10)
    raise Ended, "no answer" unless command == 0x08
    @home = @places.first
    keep("token" => (fields[3]&.unpack1("H*") || @state["token"] if number(fields[1]) == 0))
    raise fields[0x40] ? Refused : Said, text(fields[0x40] || "refused") unless token
    follow(fields[0x41])
    @offset = number(fields[10]) / 1000.0 - now # To the service's clock.
    third = (certificate.not_after - certificate.not_before) / 3
    @renewal = certificate.not_after.to_f - @offset - rand(third / 2..third)
    write(0x09, 1 => token, 2 => @topics.keys.join)
    write(0x14, 1 => "\1", 2 => "\x7f\xff\xff\xff")
    (@topics.keys - @tokens.keys).each { |topic| write(0x11, 1 => token, 2 => topic, 3 => "\0\0") }
    @accepted = now
    ask if @changes.any?
    loop { attend(&block) }
  end

  def attend(&block)
    command, fields = read([@written + @keep_alive, @renewal].min)
    if now >= @renewal
      @renewal = Float::INFINITY
      write(0x83, 0x41 => request)
    elsif !command
      write(0x0c, 5 => [(@keep_alive / 60.0).ceil].pack("n"))
      command, fields = read(now + 30) || raise(Ended, "silence")
    end
    case command
    when 0x08 then raise Ended, "second connect response"
    when 0x0a then show(fields, &block)
    when 0x12 then yield :token, { topic: @topics[fields[3]], token: @tokens[fields[3]] = fields[2].to_s.unpack1("H*") }
    when 0x1d then confirm(fields, &block)
    when 0x84 then install(fields[0x43]) ? yield(:renewed) : @renewal = now + (number(fields[0x44]) || 3600)
    when 0x85 then @renewal = now + rand(0..number(fields[0x44]).to_f)
    end
  end

  def show(fields)
    seen, flags = @state["seen"], number(fields[7]).to_i
    key, identity = fields.values_at(4, 6).map { number(_1) }, fields.values_at(2, 0x40).join.unpack1("H*")
    is_seen = seen.any? { |*one, other| one == key || (flags & 4 != 0 && other == identity) }
    is_expired = fields[5] && number(fields[5]) <= now + @offset
    unless is_seen || is_expired
      yield :notification, { topic: @topics[fields[2]], payload: JSON.parse(fields[3]), stored: flags.odd?,
                            channel: base64(parts(fields[29])[1].last) }
      keep("seen" => seen.push([*key, identity]).last(512))
    end
    write(0x0b, 1 => token, 4 => fields[4], 8 => is_expired && !is_seen ? "\3" : "\0") # Rejected or taken.
  end

  def confirm(fields)
    return unless @changes.any? && number(fields[1]) == @index
    @changes.shift
    ask if @changes.any?
    lists = parts(fields[2])[2].map { |topic| parts(topic) }
    channels = lists.to_h { |one| [text(one[1].last), one[2].map { |mark| base64(parts(mark)[1].last) }] }
    yield :subscriptions, { status: number(fields[4]), channels: }
  end

  # One change at a time; each connection asks for the one that is not confirmed.
  def ask = write(0x1d, 1 => [@index += 1].pack("N"), 2 => @changes.first, 3 => token)

  # The values that hold bytes of a message of Protocol Buffers, by the numbers of their fields.
  def parts(message)
    bytes, found = message.to_s.b, Hash.new { [] }
    until bytes.empty?
      tag = take(bytes)
      case tag & 7
      when 0 then take(bytes)
      when 1, 5 then bytes.slice!(0, tag & 7 == 1 ? 8 : 4)
      when 2 then found[tag >> 3] += [bytes.slice!(0, take(bytes))]
      else raise Ended, "malformed message"
      end
    end
    found
  end

  def take(bytes, shift = 0)
    byte = bytes.slice!(0)&.ord or raise Ended, "malformed message"
    (byte & 127) << shift | (byte < 128 ? 0 : take(bytes, shift + 7))
  end

  def varint(number) = number < 128 ? number.chr : (number & 127 | 128).chr + varint(number >> 7)
  def part(field, value) = varint(field << 3 | 2) + varint(value.bytesize) + value.b
  def marks(field, ids) = [*ids].map { |id| part(field, part(1, id.unpack1("m0"))) }.join
  def base64(bytes) = bytes && [bytes].pack("m0")
  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  def number(bytes) = bytes&.unpack1("H*")&.hex
  def text(bytes) = bytes.to_s.dup.force_encoding("UTF-8")
  def token = @state["token"] && [@state["token"]].pack("H*")
  def request = X509::Request.new.tap { |one| one.version, one.public_key = 0, @key }.sign(@key, "SHA256").to_der
  def keep(changes) = replace("#{@identity}.state", JSON.generate(@state.merge!(changes)))
  def install(ders) = ders && replace(@identity, [@key.private_to_pem, *ders.map { X509::Certificate.new(_1) }].join)
  def replace(to, text) = File.write("#{to}~", text, perm: 0o600, flags: File::SYNC) && File.rename("#{to}~", to)
end

if $PROGRAM_NAME == __FILE__
  $stdout.sync = true
  hosts, *service, topic, code, channel = ARGV.values_at(0..6)
  live = "#{topic}.push-type.liveactivity"
  device = Courier.new(hosts.split(","), *service, [topic, *(live if channel)], code: (code unless code == "-"))
  device.change(subscribe: { live => [channel] }) if channel
  device.run { |event, facts| puts JSON.generate({ event:, **facts.to_h }) }
end
