import ApusCore
package import ApusModel
import ApusStore
import Glibc

/// The file that says how far a database was when it was last seen. It is not synced: after a loss of power it may be
/// some seconds old, and then less is noticed.
struct ProgressFile: Sendable {
  let path: String

  /// - Parameter database: The database's id.
  /// - Returns: Nil if that is not known of this database.
  func read(_ database: String) -> DatabaseProgress? {
    guard let text = try? Files.readText(path) else { return nil }
    let words = text.split(whereSeparator: \.isWhitespace)
    guard words.count == 2, words[0] == database else { return nil }
    return DatabaseProgress(words[1])
  }

  /// In place: one write of less than a block. A failure costs what the file is for, and nothing else.
  func write(_ progress: DatabaseProgress, of database: String) {
    let text = "\(database) \(progress)\n"
    let padded = Array((text + String(repeating: " ", count: max(0, 96 - text.utf8.count))).utf8)
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { return }
    defer { close(descriptor) }
    _ = unsafe padded.withUnsafeBytes { unsafe pwrite(descriptor, $0.baseAddress, $0.count, 0) }
  }
}

extension DataDirectory {
  /// Of a part of a cluster's devices; 0 for the only one.
  func progressFile(of part: Int) -> ProgressFile {
    ProgressFile(path: part == 0 ? progressFile : "\(progressFile).\(part)")
  }

  /// How far the database was when it was last seen; nil if that is not known.
  package var seenProgress: DatabaseProgress? {
    guard let marked = try? markedDatabase() else { return nil }
    return progressFile(of: 0).read(marked)
  }

  /// Remembers how far the database is; false if it has been further, and so went back in time.
  ///
  /// - Parameter seen: `seenProgress` before the database was asked. What the store of this node has noted since may be
  ///   newer than the answer.
  package func note(_ progress: DatabaseProgress, after seen: DatabaseProgress?) -> Bool {
    if let seen, progress < seen { return false }
    guard let marked = try? markedDatabase() else { return true }
    let file = progressFile(of: 0)
    if let now = file.read(marked), progress < now { return true }
    file.write(progress, of: marked)
    return true
  }

  /// Accepts a database that lacks writes that it had acknowledged: continues with what it has.
  ///
  /// Nobody knows which device tokens died or were issued since, so all of them end, unless `keepsTokens`. Ids and
  /// tokens are never issued twice.
  ///
  /// - Parameter step: See `CountedNumbers.raised`.
  /// - Returns: The number of tokens that ended.
  package func acceptOlderDatabase(
    keepsTokens: Bool, allowsSingleServer: Bool, step: UInt16, nowSeconds: Int64
  ) throws -> Int {
    guard case .database(let address) = try storePlace(), let marked = try markedDatabase() else {
      throw DirectoryProblem("the store of \(path) is not a database")
    }
    let member = try clusterMember()
    var count = 0
    for part in 0..<(try currentPartCount()) {
      var options = PostgresOptions()
      options.allowsSingleServer = allowsSingleServer
      options.part = part
      options.beginsEraAfter =
        progressFile(of: part).read(marked) ?? DatabaseProgress(era: 0, group: 0)
      if let member { options.node = member.node.text }
      let store = try openDatabase(address, options)
      defer { store.close() }
      let numbers = try CountedNumbers(of: store).raised(by: step)
      count += try RestoredNumbers.put(
        numbers, into: store, keepsTokens: keepsTokens, nowMilliseconds: nowSeconds * 1000)
      progressFile(of: part).write(store.progress, of: marked)
    }
    return count
  }
}
