import ApusDirectory
import ApusModel
import ApusServer
import ApusStore
import ApusTesting
import ApusWire
import Testing

/// A service whose app has broadcasts.
struct BroadcastService {
  static let update = #"{"aps":{"timestamp":1700000000,"event":"update","content-state":{"a":1}}}"#
  static let topic = TestDirectory.topic + ".push-type.liveactivity"

  let directory: TestDirectory
  let service: TestService

  init(
    _ directory: TestDirectory? = nil, _ options: TestService.Options = .init()
  ) throws {
    self.directory = try directory ?? TestDirectory()
    try self.directory.data.changeApp(TestDirectory.topic, broadcasts: true)
    service = try TestService(self.directory, options)
  }

  /// An update of that many bytes.
  static func payload(bytes: Int) -> String {
    let head = #"{"aps":{"event":"update"},"x":""#
    return head + String(repeating: "x", count: bytes - head.utf8.count - 2) + #""}"#
  }

  func manager(_ environment: Environment = .production) throws -> RawHTTP2Client {
    try service.provider(environment, at: .channels)
  }

  /// A new channel's id, as providers name it.
  func createChannel(
    storage: Int = 1, environment: Environment = .production
  ) throws -> String {
    let headers = [
      RawHeader(.method, "POST"), RawHeader(.scheme, "https"),
      RawHeader(.path, "/1/apps/\(TestDirectory.topic)/channels"),
      RawHeader(.authority, "localhost"),
      RawHeader(.authorization, try service.authorization()),
    ]
    let body = #"{"message-storage-policy":\#(storage),"push-type":"LiveActivity"}"#
    let response = try manager(environment).exchange(headers, body: Array(body.utf8))
    return try #require(response["apns-channel-id"])
  }

  func deleteChannel(_ id: String) throws {
    let headers = [
      RawHeader(.method, "DELETE"), RawHeader(.scheme, "https"),
      RawHeader(.path, "/1/apps/\(TestDirectory.topic)/channels"),
      RawHeader(.authority, "localhost"),
      RawHeader(.authorization, try service.authorization()), RawHeader(.apnsChannelID, id),
    ]
    #expect(try manager().exchange(headers, body: []).status == 204)
  }

  func provider(_ environment: Environment = .production) throws -> Broadcaster {
    try Broadcaster(service, environment)
  }

  /// A device that lists the topic of Live Activities.
  func connect(_ device: TestDevice? = nil) throws -> ConnectedDevice {
    let connected = try service.connect(device)
    try connected.enable(Self.topic)
    return connected
  }
}

/// A provider that broadcasts.
struct Broadcaster {
  let client: RawHTTP2Client
  private let authorization: String

  init(_ service: TestService, _ environment: Environment) throws {
    client = try service.provider(environment)
    authorization = try service.authorization()
  }

  func headers(
    _ channel: String, expiration: String = "0", priority: String = "10"
  ) -> [RawHeader] {
    [
      RawHeader(.method, "POST"), RawHeader(.scheme, "https"),
      RawHeader(.path, "/4/broadcasts/apps/\(TestDirectory.topic)"),
      RawHeader(.authority, "localhost"), RawHeader(.authorization, authorization),
      RawHeader(.apnsChannelID, channel), RawHeader(.apnsPushType, "liveactivity"),
      RawHeader(.apnsExpiration, expiration), RawHeader(.apnsPriority, priority),
    ]
  }

  func broadcast(
    _ channel: String, _ body: String = BroadcastService.update, expiration: String = "0",
    priority: String = "10"
  ) throws -> RawResponse {
    try client.exchange(
      headers(channel, expiration: expiration, priority: priority), body: Array(body.utf8))
  }

  /// A broadcast that is stored for an hour, with a number in it; returns its payload and unique id.
  @discardableResult
  func store(_ channel: String, _ number: Int) throws -> (payload: [UInt8], id: String) {
    let body = #"{"aps":{"event":"update","content-state":{"number":\#(number)}}}"#
    let response = try broadcast(
      channel, body, expiration: "\(TestDirectory.nowSeconds + 3600)")
    #expect(response.status == 200)
    return (Array(body.utf8), try #require(response["apns-unique-id"]))
  }
}

/// The 16 bytes of a channel's id.
func channelBytes(_ id: String) throws -> [UInt8] {
  let text = Array(id.utf8)
  guard let bytes = Base64.decode(text.span) else { throw RawFault.unexpected("\(id) is no id") }
  return bytes
}

/// The 16 bytes of an id in text.
func idBytes(_ text: String) -> [UInt8]? {
  NotificationID(text: Array(text.utf8).span).map { bigEndian($0.high) + bigEndian($0.low) }
}

extension ConnectedDevice {
  /// The message of Protocol Buffers that subscribes and unsubscribes, written by hand: field 1 is the number 1; field
  /// 2 has the topic, in whose fields 2 and 3 are messages with an id of 16 bytes.
  static func subscriptions(
    to channels: [String], from gone: [String] = [], topic: String = BroadcastService.topic,
    replaces: Bool = false
  ) -> [UInt8] {
    func channel(_ field: UInt8, _ id: String) -> [UInt8] {
      [field << 3 | 2, 18, 0x0a, 16] + (Base64.decode(Array(id.utf8).span) ?? [])
    }
    let named =
      [0x0a, UInt8(topic.utf8.count)] + Array(topic.utf8) + channels.flatMap { channel(2, $0) }
      + gone.flatMap { channel(3, $0) }
    func varint(_ count: Int) -> [UInt8] {
      count < 128 ? [UInt8(count)] : [UInt8(count & 127) | 128, UInt8(count >> 7)]
    }
    let isNamed = !channels.isEmpty || !gone.isEmpty
    return [0x08, 1] + (isNamed ? [0x12] + varint(named.count) + named : [])
      + (replaces ? [0x18, 1] : [])
  }

  /// Sends 0x1d and returns the confirmation.
  func change(_ subscriptions: [UInt8], index: UInt8 = 7) throws -> RawCourierFrame {
    try client.send(
      RawCourierFrame(0x1d, (1, [0, 0, 0, index]), (2, subscriptions), (3, baseToken)))
    return try client.expect(0x1d, skipping: 0x0e)
  }

  /// Subscribes, which must succeed.
  func subscribe(_ channels: String..., sourceLocation: SourceLocation = #_sourceLocation) throws {
    let confirmation = try change(Self.subscriptions(to: channels))
    #expect(confirmation[4] == [0], sourceLocation: sourceLocation)
    #expect(confirmation[1] == [0, 0, 0, 7], sourceLocation: sourceLocation)
    #expect(confirmation[3] == baseToken, sourceLocation: sourceLocation)
  }

  /// The next broadcast, which is acknowledged.
  func broadcast() throws -> RawCourierFrame {
    let frame = try client.expect(0x0a, skipping: 0x0e)
    try acknowledge(frame)
    return frame
  }

  /// Nothing but what was asked for has come.
  func expectNothing(sourceLocation: SourceLocation = #_sourceLocation) throws {
    try client.send(RawCourierFrame(0x0f, (1, [0, 0])))
    _ = try client.expect(0x10, skipping: 0x0e)
  }
}
