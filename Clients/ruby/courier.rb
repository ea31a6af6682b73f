#!/usr/bin/env ruby
# A device of the Apus push notification service. As a program: courier.rb HOST PORT AUTHORITY IDENTITY TOPIC [CODE]
%w[digest json openssl socket timeout].each { |library| require library }

class Courier
  SSL, X509, PKey = OpenSSL::SSL, OpenSSL::X509, OpenSSL::PKey
  Ended = Class.new(StandardError) # The connection is over.
  Refused = Class.new(StandardError) # Waiting does not help.
  LOST = [Ended, IOError, SocketError, SystemCallError, Timeout::Error, SSL::SSLError].freeze
  # The commands that a device reads, with the fields that each must have.
  NEEDED = { 0x08 => [1, 4, 5, 6, 8, 10], 0x0a => [1, 2, 3, 4], 0x0d => [], 0x12 => [1, 3], 0x1d => [1, 4], 0x80 => [],
             0x82 => [0x40], 0x84 => [0x40], 0x85 => [0x44] }.freeze

  # `identity` is the file with the device's key and, once it has them, its certificates.
  def initialize(host, port, authority, identity, topics, code: nil, keep_alive: 900)
    @host, @port, @authority, @identity, @code, @keep_alive = host, port, authority, identity, code, keep_alive
    @topics, @tokens, @backoff = topics.to_h { |topic| [Digest::SHA1.digest(topic), topic] }, {}, 1
    replace(identity, PKey::EC.generate("prime256v1").private_to_pem) unless File.exist?(identity)
    @state = File.exist?("#{identity}.state") ? JSON.parse(File.read("#{identity}.state")) : { "seen" => [] }
  end

  # Yields events until the service refuses the device. A notification is acknowledged when the block has returned.
  def run(&block)
    loop do
      @wait = @accepted = nil
      session(&block)
    rescue *LOST => e
      raise Refused, e.message if e.message.match?(/alert (certificate revoked|unknown ca)/)
      @wait = 300 if e.message.include?("alert certificate expired") # The service's clock may be wrong.
      @backoff = 1 if @accepted && now - @accepted >= 30
      seconds = @wait || rand(@backoff / 2.0..@backoff)
      @backoff = @wait ? 1 : [@backoff * 2, 300].min
      yield :ended, { reason: e.message, seconds: }
      sleep seconds
    end
  end

  private

  def session(&block)
    pem, context = File.read(@identity), SSL::SSLContext.new
    @key, chain = PKey.read(pem), pem.include?("CERTIFICATE") ? X509::Certificate.load(pem) : []
    context.set_params(ca_file: @authority, alpn_protocols: ["apus-courier/1"], min_version: :TLS1_2)
    context.add_certificate(chain.first, @key, chain.drop(1)) if chain.any?
    @tls = SSL::SSLSocket.new(Socket.tcp(@host, @port, connect_timeout: 10), context)
    @tls.hostname, @tls.sync_close, @tls.sync = @host, true, false
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
    raise Ended, text(fields[0x40])
  rescue Timeout::Error # and so nil.
  end

  def enrol
    write(0x81, 0x40 => @code, 0x41 => request)
    command, fields = read(now + 40)
    raise Ended, "no answer" unless command == 0x82
    return if install(fields[0x43])
    @wait = number(fields[0x44])
    is_final = number(fields[0x40]) == 2 && ![3, 4, 7].include?(number(fields[0x41])) # These pass.
    raise is_final ? Refused : Ended, text(fields[0x42])
  end

  def serve(certificate, &block)
    write(0x07, 1 => token, 2 => "\1", 5 => "\0\0\0\x41")
    command, fields = read(now + 10)
    raise Ended, "no answer" unless command == 0x08
    keep("token" => (fields[3]&.unpack1("H*") || @state["token"] if number(fields[1]) == 0))
    raise fields[0x40] ? Refused : Ended, text(fields[0x40] || "refused") unless token
    @accepted, @offset = now, number(fields[10]) / 1000.0 - now # To the service's clock.
    third = (certificate.not_after - certificate.not_before) / 3
    @renewal = certificate.not_after.to_f - @offset - rand(third / 2..third)
    write(0x09, 1 => token, 2 => @topics.keys.join)
    write(0x14, 1 => "\1", 2 => "\x7f\xff\xff\xff")
    (@topics.keys - @tokens.keys).each { |topic| write(0x11, 1 => token, 2 => topic, 3 => "\0\0") }
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
      yield :notification, { topic: @topics[fields[2]], payload: JSON.parse(fields[3]), stored: flags.odd? }
      keep("seen" => seen.push([*key, identity]).last(512))
    end
    write(0x0b, 1 => token, 4 => fields[4], 8 => is_expired && !is_seen ? "\3" : "\0") # Rejected or taken.
  end

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
  *service, topic, code = ARGV.values_at(0..5)
  Courier.new(*service, [topic], code:).run { |event, facts| puts JSON.generate({ event:, **facts.to_h }) }
end
