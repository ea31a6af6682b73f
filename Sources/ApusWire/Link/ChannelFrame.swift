package import ApusModel

/// One message about channels, between the node that has them and one that keeps a copy for the devices of its part.
///
/// Layout, numbers big-endian: number of bytes that follow (4), kind (1), and the content in the order of the values
/// below: a channel's id (16), an app (4), an environment (1), a storage policy (1), a priority (1), other numbers and
/// times (8 each).
package enum ChannelFrame: Sendable, Equatable {
  // From the node that has the channels.

  /// A channel exists. Its time is that of its creation, in Unix milliseconds.
  case channel(Channel)
  /// A broadcast on a channel: one that was published just now, or what the channel keeps.
  case broadcast(ChannelID, LinkedBroadcast)
  /// The channel keeps nothing.
  case empty(ChannelID)
  case deleted(ChannelID)
  /// What there was when the link began has come.
  case complete
  /// Answers `ask`: what there was at that time has come.
  case answer(UInt64)

  // From the copy.

  case ask(UInt64)
  /// Devices have acknowledged broadcasts of the channel so many times since the last such message; and so many
  /// subscriptions it has now.
  case figures(ChannelID, delivered: UInt64, subscriptions: UInt64)
  /// So many devices of the part are subscribed to channels of the app.
  case subscribers(AppID, Environment, UInt64)
  /// All figures were sent that have changed, or on a new link all.
  case counted

  fileprivate enum Kind: UInt8 {
    case channel = 1
    case broadcast, empty, deleted, complete, answer, ask, figures, subscribers, counted
  }

  package enum Reading: Sendable, Equatable {
    case incomplete
    case complete(ChannelFrame)
    case malformed
  }

  private static let headByteCount = 4
  private static let mostBytes = 1 + 58 + Limits.broadcastPayloadBytes

  // MARK: Writing

  package func encode(to output: inout [UInt8]) {
    let start = output.count
    output.append(bigEndian: UInt32(0))
    encodeContent(to: &output)
    output.patch(bigEndian: UInt32(output.count - start - Self.headByteCount), at: start)
  }

  private func encodeContent(to output: inout [UInt8]) {
    switch self {
    case .channel(let channel):
      output.append(Kind.channel.rawValue)
      output.append(channel.id)
      output.append(bigEndian: channel.app.rawValue)
      output += [channel.environment.rawValue, channel.storage.rawValue]
      output.append(bigEndian: UInt64(bitPattern: channel.createdMilliseconds))
    case .broadcast(let id, let broadcast):
      output.append(Kind.broadcast.rawValue)
      output.append(id)
      broadcast.encode(to: &output)
    case .empty(let id):
      output.append(Kind.empty.rawValue)
      output.append(id)
    case .deleted(let id):
      output.append(Kind.deleted.rawValue)
      output.append(id)
    case .complete: output.append(Kind.complete.rawValue)
    case .answer(let number): output.append(.answer, number)
    case .ask(let number): output.append(.ask, number)
    case .figures(let id, let delivered, let subscriptions):
      output.append(Kind.figures.rawValue)
      output.append(id)
      output.append(bigEndian: delivered)
      output.append(bigEndian: subscriptions)
    case .subscribers(let app, let environment, let count):
      output.append(Kind.subscribers.rawValue)
      output.append(bigEndian: app.rawValue)
      output.append(environment.rawValue)
      output.append(bigEndian: count)
    case .counted: output.append(Kind.counted.rawValue)
    }
  }

  // MARK: Reading

  /// Reads the message at `offset`, and moves behind it if it is complete.
  package static func next(_ bytes: Span<UInt8>, at offset: inout Int) -> Reading {
    guard bytes.count - offset >= headByteCount else { return .incomplete }
    let count = Int(bytes.bigEndianUInt32(at: offset))
    guard (1...mostBytes).contains(count) else { return .malformed }
    let start = offset + headByteCount
    guard bytes.count - start >= count else { return .incomplete }
    var reader = ByteReader(bytes.extracting(start..<start + count))
    guard let kind = reader.u8().flatMap(Kind.init(rawValue:)),
      let frame = content(of: kind, &reader), reader.remaining == 0
    else { return .malformed }
    offset = start + count
    return .complete(frame)
  }

  private static func content(of kind: Kind, _ reader: inout ByteReader) -> ChannelFrame? {
    switch kind {
    case .channel: channel(&reader).map { .channel($0) }
    case .broadcast:
      reader.channelID().flatMap { id in
        LinkedBroadcast(&reader).map { .broadcast(id, $0) }
      }
    case .empty: reader.channelID().map { .empty($0) }
    case .deleted: reader.channelID().map { .deleted($0) }
    case .complete: .complete
    case .answer: reader.u64().map { .answer($0) }
    case .ask: reader.u64().map { .ask($0) }
    case .figures: figures(&reader)
    case .subscribers: subscribers(&reader)
    case .counted: .counted
    }
  }

  private static func channel(_ reader: inout ByteReader) -> Channel? {
    guard let id = reader.channelID(), let app = reader.u32(),
      let environment = reader.u8().flatMap(Environment.init(rawValue:)),
      let storage = reader.u8().flatMap(ChannelStorage.init(rawValue:)),
      let created = reader.u64()
    else { return nil }
    return Channel(
      id: id, app: AppID(app), environment: environment, storage: storage,
      createdMilliseconds: Int64(bitPattern: created))
  }

  private static func figures(_ reader: inout ByteReader) -> ChannelFrame? {
    guard let id = reader.channelID(), let delivered = reader.u64(),
      let subscriptions = reader.u64()
    else { return nil }
    return .figures(id, delivered: delivered, subscriptions: subscriptions)
  }

  private static func subscribers(_ reader: inout ByteReader) -> ChannelFrame? {
    guard let app = reader.u32(),
      let environment = reader.u8().flatMap(Environment.init(rawValue:)),
      let count = reader.u64()
    else { return nil }
    return .subscribers(AppID(app), environment, count)
  }
}

/// A broadcast on its way to a copy of its channel.
///
/// Layout, numbers big-endian: order of its acceptance (8), id (16), accepted (8, Unix milliseconds), kept until (8,
/// Unix seconds, or 0 for one attempt), priority (1), payload (the rest).
package struct LinkedBroadcast: Sendable, Equatable {
  /// As the node counts that has the channels. The copy numbers it anew, among the notifications of its own devices.
  package var order: UInt64
  package var id: NotificationID
  package var acceptedMilliseconds: Int64
  package var expirationSeconds: Int64
  package var priority: Priority
  package var payload: [UInt8]

  package init(
    order: UInt64, id: NotificationID, acceptedMilliseconds: Int64, expirationSeconds: Int64,
    priority: Priority, payload: [UInt8]
  ) {
    self.order = order
    self.id = id
    self.acceptedMilliseconds = acceptedMilliseconds
    self.expirationSeconds = expirationSeconds
    self.priority = priority
    self.payload = payload
  }

  fileprivate func encode(to output: inout [UInt8]) {
    output.append(bigEndian: order)
    output.append(bigEndian: id.high)
    output.append(bigEndian: id.low)
    output.append(bigEndian: UInt64(bitPattern: acceptedMilliseconds))
    output.append(bigEndian: UInt64(bitPattern: expirationSeconds))
    output.append(priority.rawValue)
    output += payload
  }

  /// Nil if the bytes are no broadcast.
  fileprivate init?(_ reader: inout ByteReader) {
    guard let order = reader.u64(), let high = reader.u64(), let low = reader.u64(),
      let accepted = reader.u64(), let expiration = reader.u64(),
      let priority = reader.u8().flatMap(Priority.init(rawValue:)),
      let payload = reader.take(reader.remaining), !payload.isEmpty
    else { return nil }
    self.init(
      order: order, id: NotificationID(high: high, low: low),
      acceptedMilliseconds: Int64(bitPattern: accepted),
      expirationSeconds: Int64(bitPattern: expiration), priority: priority,
      payload: payload.copied())
  }
}

extension [UInt8] {
  fileprivate mutating func append(_ id: ChannelID) {
    append(bigEndian: id.high)
    append(bigEndian: id.low)
  }

  fileprivate mutating func append(_ kind: ChannelFrame.Kind, _ number: UInt64) {
    append(kind.rawValue)
    append(bigEndian: number)
  }
}

extension ByteReader {
  fileprivate mutating func channelID() -> ChannelID? {
    guard let high = u64(), let low = u64() else { return nil }
    return ChannelID(high: high, low: low)
  }
}
