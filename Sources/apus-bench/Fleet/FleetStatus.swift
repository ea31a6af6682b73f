import ApusCommand
import ApusWire

/// What a fleet has done and is doing. Of a fixed size, so that it is cheap to keep and to add up.
struct FleetStatus: Sendable, Equatable {
  /// The order is that of the JSON object.
  enum Count: Int, CaseIterable {
    /// Those that were asked for.
    case devices
    /// Those whose token is known.
    case registered
    /// Those that the service believes at the moment.
    case connected
    case received
    case acknowledged
    /// Notifications that came again.
    case duplicates
    /// Handshakes that led to a connection.
    case handshakes
    /// Those of them that resumed a session.
    case resumed
    /// Connections that ended, and were not to.
    case disconnections
    /// Attempts that led to no connection.
    case failures
    /// Devices that are on their way to a connection.
    case connecting
  }

  private var counts = [UInt64](repeating: 0, count: Count.allCases.count)
  /// From when a notification was due to be sent to its receipt; since the last SIGUSR1.
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

  /// Counts a notification that came now.
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

/// What a part of a fleet tells the process that started it.
struct FleetReport: Equatable {
  enum Occasion: UInt64 {
    case passing
    /// The answer to SIGUSR1: the latency begins anew.
    case cut
    /// All tokens are known, and written.
    case registered
    case last
  }

  var occasion: Occasion
  var status: FleetStatus

  /// Numbers in the order of the machine's bytes: both ends are the same program.
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

  /// Nil for what `bytes` does not make.
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
