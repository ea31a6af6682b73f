import Foundation
import Testing

@Suite("Clients of the binary interface from PyPI", .serialized)
struct BinaryClientTests {
  static let deviceCount = 4
  static let batchCount = 1_000
  static let foreignToken = String(repeating: "5a", count: 32)
  static let invalidToken = 8

  /// Where the bad notifications of a batch are.
  enum Place: CaseIterable {
    case first
    case middle
    case last

    var places: [Int] {
      switch self {
      // Two in a row, so that the first resend begins with a bad one.
      case .first: [0, 1]
      case .middle: [batchCount / 2]
      case .last: []
      }
    }
  }

  @Test(
    "With its reports and resends, each client delivers every good one of 1,000 notifications once",
    .timeLimit(.minutes(30)),
    arguments: [.apnsClerk, .pushjack, .tapns3(command: 1), .tapns3(command: 2)] as [BinaryClient])
  func sendsAgain(client: BinaryClient) throws { try check(client) }

  @Test(
    "With its reports and resends, PyAPNs delivers every good one of 1,000 notifications once",
    .enabled(if: Programs.python2 != nil, BinaryClient.python2IsMissing), .timeLimit(.minutes(30)),
    arguments: [.pyAPNs(command: 1), .pyAPNs(command: 2)] as [BinaryClient])
  func pyAPNsSendsAgain(client: BinaryClient) throws { try check(client) }

  @Test(
    "With command 0 exactly the notifications before the bad one arrive, then the connection ends",
    .timeLimit(.minutes(30)))
  func simple() throws { try check(.tapns3(command: 0)) }

  @Test(
    "With command 0 of PyAPNs exactly the notifications before the bad one arrive, then the connection ends",
    .enabled(if: Programs.python2 != nil, BinaryClient.python2IsMissing), .timeLimit(.minutes(30)))
  func pyAPNsSimple() throws { try check(.pyAPNs(command: 0)) }

  @Test(
    "apns-clerk, unmodified, reaches a listener for legacy TLS with TLS 1.0",
    .timeLimit(.minutes(30)))
  func oldTLS() throws {
    let installation = try Installation()
    try installation.start(gateway: "+legacy-tls")
    let phone = try installation.device("phone")
    let failures = try BinaryClient.apnsClerk.send(
      [.init(token: try phone.connect(), n: 1), .init(token: Self.foreignToken, n: 2)],
      to: installation, speaksTLS10: true)
    #expect(failures == [.init(place: 1, status: Self.invalidToken)])
    #expect(try phone.shown(atLeast: 1) == [1])
  }

  /// Sends a batch for each place and compares the notifications that each device got.
  private func check(_ client: BinaryClient) throws {
    let installation = try Installation()
    try installation.start()
    let devices = try (0..<Self.deviceCount).map { try installation.device("device \($0)") }
    let tokens = try devices.map { try $0.connect() }
    var expected = Array(repeating: [Int](), count: devices.count)

    for (batch, place) in Place.allCases.enumerated() {
      // The last notification is always bad: its error packet tells the client that the batch is done.
      let bad = place.places + [Self.batchCount - 1]
      let numbers = (0..<Self.batchCount).map { batch * Self.batchCount + $0 }
      let notifications = numbers.indices.map { index in
        BinaryClient.Notification(
          token: bad.contains(index) ? Self.foreignToken : tokens[index % tokens.count],
          n: numbers[client.hasOnePayload ? 0 : index])
      }
      let failures = try client.send(notifications, to: installation)
      let reported = client.command == 0 ? [] : bad
      #expect(failures == reported.map { .init(place: $0, status: Self.invalidToken) }, "\(place)")
      let taken = client.command == 0 ? numbers.indices.prefix(bad[0]) : numbers.indices[...]
      for index in taken where !bad.contains(index) {
        expected[index % tokens.count].append(notifications[index].n)
      }
    }
    // Arrives after all others, so none of them is still in flight.
    let end = Self.batchCount * Place.allCases.count
    for (index, device) in devices.enumerated() {
      try installation.send(end, to: tokens[index])
      let numbers = try device.shown(atLeast: expected[index].count + 1)
      #expect(numbers.sorted() == expected[index] + [end], "device \(index)")
    }
  }
}
