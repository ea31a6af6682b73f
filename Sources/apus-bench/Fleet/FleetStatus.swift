import ApusCommand
import ApusWire

/// The counts of a fleet. Of fixed size, so that it is cheap to keep and to sum up.
struct FleetStatus: Sendable, Equatable {
  /// In the order of the JSON object.
  enum Count: Int, CaseIterable {
    /// Requested devices.
    case devices
    /// Devices whose token is known.
    case registered
    /// Devices whose subscriptions the service confirmed.
    case subscribed
    /// Devices that are currently connected.
    case connected
    case received
    case acknowledged
    /// Notifications that arrived again.
    case duplicates
    /// Handshakes that led to a connection.
    case handshakes
    /// Handshakes that resumed a session.
    case resumed
    /// Connections that ended unexpectedly.
    case disconnections
    /// Failed connection attempts.
    case failures
    /// Devices that are connecting.
    case connecting
  }

  private var counts = [UInt64](repeating: 0, count: Count.allCases.count)
  /// From a notification's due time to its receipt, since the last SIGUSR1.
  var latency = FineHistogram()

  init() {}

  subscript(count: Count) -> UInt64 {
    get { counts[count.rawValue] }
    set { counts[count.rawValue] = newValue }
  }

  static func += (left: inout FleetStatus, right: FleetStatus) {
    for index in left.counts.indices { left.counts[index] &+= right.counts[index] }
    left.latency += right.latency
  }

  /// Counts a notification received now.
  mutating func received(_ payload: Span<UInt8>) {
    self[.received] += 1
    guard let due = SentTime.find(in: payload) else { return }
    latency.add(microseconds: sinceNanoseconds(due) / 1000)
  }

  var json: JSONValue {
    var members = Count.allCases.map {
      JSONObject.Member(key: "\($0)", value: .integer(Int64(self[$0])))
    }
    members.append(JSONObject.Member(key: "latency", value: latency.json))
    return .object(JSONObject(members))
  }
}

extension FineHistogram {
  var json: JSONValue {
    func time(_ perMille: UInt64) -> JSONValue {
      microseconds(perMille: perMille).map { .integer(Int64($0)) } ?? .null
    }
    return .members([
      "count": .integer(Int64(count)), "p50_us": time(500), "p90_us": time(900),
      "p99_us": time(990), "p999_us": time(999), "max_us": time(1000),
      "mean_us": count == 0 ? .null : .number(Double(sumMicroseconds) / Double(count)),
    ])
  }
}

// MARK: - For another process

/// A report of a part of a fleet to its parent process.
struct FleetReport: Equatable {
  enum Occasion: UInt64 {
    case passing
    /// The response to SIGUSR1; the latency is then reset.
    case cut
    /// All tokens are known and written.
    case registered
    case last
  }

  var occasion: Occasion
  var status: FleetStatus

  /// Numbers in native byte order, because both ends are the same program.
  static let byteCount = 8 * (1 + FleetStatus.Count.allCases.count + FineHistogram.wordCount)

  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(Self.byteCount)
    let counts = FleetStatus.Count.allCases.map { status[$0] }
    for word in [occasion.rawValue] + counts + status.latency.words {
      for shift in stride(from: 0, to: 64, by: 8) {
        bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(shift)))
      }
    }
    return bytes
  }

  init(_ occasion: Occasion, _ status: FleetStatus) {
    self.occasion = occasion
    self.status = status
  }

  /// Nil for anything that `bytes` cannot have made.
  init?(bytes: Span<UInt8>) {
    guard bytes.count == Self.byteCount else { return nil }
    var words: [UInt64] = []
    words.reserveCapacity(Self.byteCount / 8)
    for start in stride(from: 0, to: bytes.count, by: 8) {
      var word: UInt64 = 0
      for index in (start..<start + 8).reversed() { word = word << 8 | UInt64(bytes[index]) }
      words.append(word)
    }
    guard let occasion = Occasion(rawValue: words[0]) else { return nil }
    var status = FleetStatus()
    for count in FleetStatus.Count.allCases { status[count] = words[1 + count.rawValue] }
    status.latency = FineHistogram(words: words[(1 + FleetStatus.Count.allCases.count)...])
    self.init(occasion, status)
  }
}
