import ApusWire
import Foundation
import Testing

@testable import ApusDev

extension Bench {
  /// Runs a program to its end on another thread.
  static func run(
    _ arguments: [String], in folder: URL, _ variables: [String: String]
  ) async throws -> (status: Int32, output: String) {
    try await withCheckedThrowingContinuation { continuation in
      DispatchQueue.global().async {
        continuation.resume(
          with: Result {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = arguments
            process.currentDirectoryURL = folder
            process.environment = ProcessInfo.processInfo.environment.merging(variables) { $1 }
            let output = Pipe()
            process.standardOutput = output
            process.standardError = output
            try process.run()
            let data = output.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            return (process.terminationStatus, String(decoding: data, as: UTF8.self))
          })
      }
    }
  }

  /// Follows the events like a page.
  func eventsFeed(after id: String? = nil, isBrief: Bool = false) -> EventsFeed {
    EventsFeed("\(facts.console)/api/v1/events\(isBrief ? "?brief=true" : "")", after: id)
  }
}

/// Server-sent events, read by curl.
final class EventsFeed {
  struct Event: Sendable {
    var name: String
    var id: String
    var data: JSONValue
  }

  private let process = Process()
  private var events: AsyncStream<Event>.Iterator

  init(_ url: String, after id: String?) {
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments =
      ["curl", "--silent", "--no-buffer", "--max-time", "900"]
      + (id.map { ["--header", "last-event-id: \($0)"] } ?? []) + [url]
    let output = Pipe()
    process.standardOutput = output
    let (stream, sink) = AsyncStream.makeStream(of: Event.self)
    events = stream.makeAsyncIterator()
    let handle = output.fileHandleForReading
    Thread.detachNewThread {
      var text: [UInt8] = []
      while case let data = handle.availableData, !data.isEmpty {
        text += data
        while let end = text.firstRange(of: [0x0a, 0x0a]) {
          if let event = Self.read(String(decoding: text[..<end.lowerBound], as: UTF8.self)) {
            sink.yield(event)
          }
          text.removeSubrange(..<end.upperBound)
        }
      }
      sink.finish()
    }
    try? process.run()
  }

  private static func read(_ text: String) -> Event? {
    var fields: [String: String] = [:]
    for line in text.split(separator: "\n") {
      let sides = line.split(separator: ":", maxSplits: 1).map(String.init)
      if sides.count == 2 { fields[sides[0]] = String(sides[1].dropFirst()) }
    }
    // Every stream begins with this field.
    if fields["retry"] != nil { return Event(name: "open", id: "", data: .null) }
    guard let name = fields["event"], let id = fields["id"], let data = fields["data"] else {
      return nil
    }
    let bytes = Array(data.utf8)
    guard let json = try? JSONValue(parsing: bytes.span) else { return nil }
    return Event(name: name, id: id, data: json)
  }

  /// Waits for the next event with that name.
  func next(_ name: String) async throws -> Event {
    while let event = await events.next(isolation: nil) {
      if event.name == name { return event }
    }
    throw CancellationError()
  }

  func stop() { process.terminate() }
}
