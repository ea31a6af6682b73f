import ApusModel
import ApusStore
import ApusTrust
import Glibc

/// Puts a backup into a data directory.
///
/// The new content is completed in `restoring/` of the directory before anything else is touched. A file there then
/// says so, from which on an interrupted restore is not undone but finished: until then the directory is as it was.
package struct Restore {
  /// What was done, for the operator.
  package struct Report: Sendable {
    package var madeSeconds: Int64
    /// The tokens that ended; nil if the backup has no store.
    package var endedTokens: Int?
    /// The folder with what the directory had before; nil if it was empty.
    package var replaced: String?
    /// What the directory knew better than the backup, in words.
    package var kept: [String] = []
    /// What the backup has and was removed since, or has not and was added since, in words.
    package var differences: [String] = []
    /// One-time codes that were not restored, because they may have been used since.
    package var withdrawnCodes = 0
  }

  static let replacedPrefix = "replaced-"

  private let backup: Backup
  private let directory: DataDirectory
  private let keepsTokens: Bool
  private let step: UInt16
  private let nowSeconds: Int64

  /// - Parameters:
  ///   - keepsTokens: Whether device tokens stay as they were at the time of the backup.
  ///   - step: See `CountedNumbers.raised`.
  package init(
    _ backup: Backup, into directory: DataDirectory, keepsTokens: Bool, step: UInt16,
    nowSeconds: Int64
  ) {
    self.backup = backup
    self.directory = directory
    self.keepsTokens = keepsTokens
    self.step = step
    self.nowSeconds = nowSeconds
  }

  /// - Throws: Why nothing was changed; or, if `DataDirectory.interruptedRestore` says so, why the restore could not be
  ///   finished.
  package func run() throws -> Report {
    try Files.makeDirectory(directory.path)
    let place = RestoringFolder(directory)
    try place.refuseForeignFiles()
    return try directory.changing {
      guard directory.serviceAddresses == nil else {
        throw DirectoryProblem("the service of \(directory.path) runs: shut it down first")
      }
      // Held until the end, so that no service starts meanwhile.
      let lock =
        directory.hasStore ? try StoreLock(path: directory.storePath) : nil
      defer { withExtendedLifetime(lock) {} }
      try place.refuseMountPoints()
      let old = directory.isProvisioned ? place.nameForOld(nowSeconds: nowSeconds) : nil
      var report: Report
      do {
        try place.empty()
        try backup.copy(to: place.content)
        report = try complete(DataDirectory(path: place.content))
        try place.giveToOwner()
        try place.declareComplete(old: old)
      } catch {
        if !place.isComplete { try? place.remove() }
        throw error
      }
      try place.moveIn()
      report.replaced = old.map { "\(directory.path)/\($0)" }
      return report
    }
  }

  /// Makes the copied files a directory from which nothing comes back that has ended since.
  private func complete(_ new: DataDirectory) throws -> Report {
    var report = Report(madeSeconds: backup.manifest.madeSeconds)
    if directory.isProvisioned {
      let merge = RestoredTrust(new, keeping: directory)
      try merge.requireSameService()
      report.differences = try merge.differences()
      report.kept = try merge.run()
    } else {
      report.withdrawnCodes = try new.withdrawCodes()
    }
    do {
      _ = try new.trust(generation: 1, allowsES512: true)
    } catch {
      throw DirectoryProblem(
        "the restored directory cannot be used, so nothing was changed: \(error)")
    }
    report.endedTokens = try raiseNumbers(of: new, &report)
    return report
  }

  private func raiseNumbers(of new: DataDirectory, _ report: inout Report) throws -> Int? {
    guard new.hasStore else { return nil }
    let store = try RocksStore(path: new.storePath)
    defer { store.close() }
    var numbers = try CountedNumbers(of: store)
    if directory.hasStore {
      do {
        let current = try StoreFollowing(directory.storePath)
        numbers = numbers.merged(with: try CountedNumbers(of: current.store))
      } catch {
        report.differences.append("the directory's own store cannot be read (\(error))")
      }
    }
    return try RestoredNumbers.put(
      numbers.raised(by: step), into: store, keepsTokens: keepsTokens,
      nowMilliseconds: nowSeconds * 1000)
  }
}

extension DataDirectory {
  /// What to do about a restore that was interrupted when it had begun to change the directory; nil if there is none.
  package var interruptedRestore: String? {
    guard RestoringFolder(self).isComplete else { return nil }
    return "a restore of \(path) was interrupted: run `apus restore --data \(path)` to finish it"
  }

  /// Finishes an interrupted restore; false if there is none.
  package func finishRestore() throws -> Bool {
    let place = RestoringFolder(self)
    guard place.isComplete else { return false }
    try changing { try place.moveIn() }
    return true
  }

  /// Removes the one-time codes, also those that were used: nobody can tell which.
  ///
  /// - Returns: The number of codes.
  fileprivate func withdrawCodes() throws -> Int {
    let folder = "\(path)/enrolment/codes"
    let codes = try Files.names(in: folder).count { !$0.contains(".") }
    try FileTree.remove(folder)
    return codes
  }
}
