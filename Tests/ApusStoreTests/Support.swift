import ApusStore
import Foundation
import PostgresServer
import Synchronization

/// Commits what `build` writes and waits for the answer.
func commit(
  _ store: any DurableStore, _ build: (inout WriteGroup) -> Void
) async -> StoreError? {
  await withCheckedContinuation { continuation in
    var group = store.makeGroup()
    build(&group)
    store.commit(group) { continuation.resume(returning: $0) }
  }
}

extension WriteGroup {
  mutating func put(_ family: StoreFamily, _ key: [UInt8], _ value: [UInt8]) {
    put(family, key: key.span, value: value.span)
  }

  mutating func delete(_ family: StoreFamily, _ key: [UInt8]) { delete(family, key: key.span) }
}

extension StoreReader {
  func get(_ family: StoreFamily, _ key: [UInt8]) throws(StoreError) -> [UInt8]? {
    try get(family, key: key.span)
  }
}

extension DurableStore {
  /// The rows with `prefix` from `start` on in the order of the visits, at most `limit`.
  func rows(
    _ family: StoreFamily, prefix: [UInt8], from start: [UInt8] = [], limit: Int = .max
  ) throws(StoreError) -> [[[UInt8]]] {
    var rows: [[[UInt8]]] = []
    try scan(family, prefix: prefix.span, from: start.span) { key, value in
      rows.append([bytes(key), bytes(value)])
      return rows.count < limit
    }
    return rows
  }
}

func bytes(_ span: Span<UInt8>) -> [UInt8] { span.indices.map { span[$0] } }

/// A path for a store in a directory of its own, removed at the end.
final class Scratch: Sendable {
  let root: String
  var path: String { root + "/store" }

  init() {
    root = NSTemporaryDirectory() + "apus-store-" + UUID().uuidString
    try? FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: root) }

  /// A database of the test's own.
  func database() throws -> PostgresAddress {
    try PostgresAddress(PostgresServer.shared.address(of: databaseName))
  }

  var databaseName: String { String(root.suffix(36)).lowercased() }

  /// Each file in the store by name, with its content.
  func files() throws -> [String: Data] {
    var files: [String: Data] = [:]
    for name in try FileManager.default.contentsOfDirectory(atPath: path) {
      files[name] = FileManager.default.contents(atPath: path + "/" + name)
    }
    return files
  }

  /// Closes the store, and restores its files as they were before: closing writes tables, a kill does not.
  func kill(_ store: RocksStore) throws {
    let copy = root + "/copy"
    while try !copyFiles(to: copy) { try FileManager.default.removeItem(atPath: copy) }
    store.close()
    try FileManager.default.removeItem(atPath: path)
    try FileManager.default.moveItem(atPath: copy, toPath: path)
  }

  /// Copies the store's files while the engine may write a table. The list of tables comes first: those that it names
  /// are complete. Returns false if a file came or went meanwhile.
  private func copyFiles(to copy: String) throws -> Bool {
    let before = try names()
    try FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: false)
    func isList(_ name: String) -> Bool { name == "CURRENT" || name.hasPrefix("MANIFEST") }
    for name in before.filter(isList) + before.filter({ !isList($0) }) {
      let file = "\(path)/\(name)"
      guard FileManager.default.fileExists(atPath: file) else { return false }
      try FileManager.default.copyItem(atPath: file, toPath: "\(copy)/\(name)")
    }
    return try names() == before
  }

  /// The names with `suffix` or `prefix` in the store, sorted.
  func names(prefix: String = "", suffix: String = "") throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: path)
      .filter { $0.hasPrefix(prefix) && $0.hasSuffix(suffix) }.sorted()
  }

  func change(_ name: String, _ body: (inout [UInt8]) throws -> Void) throws {
    let file = URL(filePath: "\(path)/\(name)")
    var content = try [UInt8](Data(contentsOf: file))
    try body(&content)
    try Data(content).write(to: file)
  }

  func write(_ text: String, to name: String) throws {
    try Data(text.utf8).write(to: URL(fileURLWithPath: path + "/" + name))
  }
}

/// The stores, to which the same tests apply.
enum Engine: String, CaseIterable, Sendable {
  case rocks
  case memory
  case postgres

  func make(in scratch: Scratch) throws -> any DurableStore {
    switch self {
    case .rocks: try RocksStore(path: scratch.path)
    case .memory: MemoryStore()
    case .postgres:
      try PostgresStore(scratch.database(), .forTests { $0.part = 1 })
    }
  }
}

extension PostgresOptions {
  /// For a server without a standby.
  static var forTests: PostgresOptions {
    var options = PostgresOptions()
    options.allowsSingleServer = true
    options.readers = 2
    return options
  }

  static func forTests(_ change: (inout PostgresOptions) -> Void) -> PostgresOptions {
    var options = forTests
    change(&options)
    return options
  }
}

/// Values that completions leave for the test.
final class Recorder<Element: Sendable>: Sendable {
  private let elements = Mutex<[Element]>([])

  func append(_ element: Element) { elements.withLock { $0.append(element) } }

  var all: [Element] { elements.withLock { $0 } }
}

/// `await`s until `count` calls of `arrive`.
final class Latch: Sendable {
  private let stream: AsyncStream<Void>
  private let continuation: AsyncStream<Void>.Continuation

  init() { (stream, continuation) = AsyncStream.makeStream() }

  func arrive() { continuation.yield() }

  func wait(for count: Int = 1) async {
    var left = count
    guard left > 0 else { return }
    for await _ in stream {
      left -= 1
      if left == 0 { return }
    }
  }
}

/// Bytes from hexadecimal digits; text after a `#` in a line is a comment.
func hex(_ text: String) -> [UInt8] {
  let digits = text.split(separator: "\n").flatMap { line in
    line.prefix { $0 != "#" }.filter { !$0.isWhitespace }.compactMap { $0.hexDigitValue }
  }
  return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
}
