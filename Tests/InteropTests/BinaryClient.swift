import Foundation
import Testing

/// An unmodified third-party client of the binary interface, with one of the commands that it can send.
struct BinaryClient: CustomTestStringConvertible {
  var testDescription: String
  var command: Int
  /// Whether all notifications of one call have the same payload.
  var hasOnePayload = false
  var isPython2 = false
  private var script: String

  static let apnsClerk = BinaryClient(
    testDescription: "apns-clerk 0.2.0, command 2", command: 2, script: "send_with_apns_clerk.py")

  static let pushjack = BinaryClient(
    testDescription: "pushjack 1.6.0, command 2", command: 2, hasOnePayload: true,
    script: "send_with_pushjack.py")

  static func tapns3(command: Int) -> BinaryClient {
    BinaryClient(
      testDescription: "tapns3 3.0.0, command \(command)", command: command,
      script: "send_with_pyapns.py")
  }

  static func pyAPNs(command: Int) -> BinaryClient {
    BinaryClient(
      testDescription: "PyAPNs 2.0.1, command \(command)", command: command, isPython2: true,
      script: "send_with_pyapns.py")
  }

  static let python2IsMissing: Comment =
    "PyAPNs 2.0.1 is written in Python 2, and python2.7 was found neither on the PATH nor in pyenv"

  struct Notification {
    var token: String
    /// The member "n" of the payload.
    var n: Int
  }

  struct Failure: Equatable {
    /// The index among the notifications.
    var place: Int
    var status: Int
  }

  struct FeedbackRow: Equatable {
    var token: String
    var seconds: Int
  }

  /// Sends the notifications, of which the last must be a bad one, and returns the failures that the client reported.
  func send(
    _ notifications: [Notification], to installation: Installation, speaksTLS10: Bool = false
  ) throws -> [Failure] {
    let report = try run(
      installation, port: installation.gatewayPort,
      [
        "command": command, "notifications": notifications.map { [$0.token, $0.n] as [Any] },
        "speaks_tls_1_0": speaksTLS10,
      ])
    return try Self.pairs(report["failures"]) { (place: Int, status: Int) in
      Failure(place: place, status: status)
    }
  }

  /// The rows that the client read from the feedback service.
  func feedback(from installation: Installation) throws -> [FeedbackRow] {
    let report = try run(
      installation, port: installation.feedbackPort, ["speaks_tls_1_0": false])
    return try Self.pairs(report["feedback"]) { (token: String, seconds: Int) in
      FeedbackRow(token: token, seconds: seconds)
    }
  }

  private func run(
    _ installation: Installation, port: Int, _ plan: [String: Any]
  ) throws -> [String: Any] {
    let file = installation.directory.appending(path: "plan.json")
    let shared: [String: Any] = [
      "host": "localhost", "port": port, "authority": installation.authority,
      "certificate": try installation.providerCertificate(),
      // Far more than any test needs.
      "quiet_seconds": 60, "patience_seconds": 60,
    ]
    try JSONSerialization.data(withJSONObject: shared.merging(plan) { $1 }).write(to: file)
    let script = Programs.root.appending(path: "Tests/InteropTests/Senders/\(script)")
    var environment = ["PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"]
    var python = try Programs.python()
    if isPython2 {
      guard let python2 = Programs.python2 else { throw Trouble("\(Self.python2IsMissing)") }
      environment["PYTHONPATH"] =
        python.deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "python2").path
      python = python2
    }
    let printed = try Programs.bytes(python, [script.path, file.path], environment: environment)
    return try Programs.json(String(decoding: printed, as: UTF8.self))
  }

  private static func pairs<First, Second, Row>(
    _ value: Any?, _ make: (First, Second) -> Row
  ) throws -> [Row] {
    guard let rows = value as? [[Any]] else { throw Trouble("not pairs: \(value ?? "nothing")") }
    return try rows.map { row in
      guard row.count == 2, let first = row[0] as? First, let second = row[1] as? Second else {
        throw Trouble("\(row) is not a pair of the right types")
      }
      return make(first, second)
    }
  }
}
