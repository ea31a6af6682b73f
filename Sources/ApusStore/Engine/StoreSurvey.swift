import ApusModel

/// Surveys a store's logs, one after the other, and its MANIFEST. Changes nothing.
///
/// Of the logs it reads those that the engine reads when it opens the store: older ones are only waiting for their
/// removal.
package struct StoreSurvey: Sendable {
  package struct Log: Sendable {
    package enum Outcome: Sendable {
      case read(LogSurvey)
      case unreadable(code: Int32, reason: String)
    }

    package var name: String
    package var outcome: Outcome
    package var survey: LogSurvey? { if case .read(let survey) = outcome { survey } else { nil } }
  }

  /// Nil if the engine's pointer to it, or the file that it names, is missing or cannot be read.
  private(set) var manifest: (name: String, survey: ManifestSurvey)?
  package private(set) var logs: [Log] = []
  /// Writes that the MANIFEST names and no log has: at least so many are missing at the end.
  private(set) var missingAtEnd: UInt64 = 0

  /// - Parameter path: The store's directory.
  package init(path: String) {
    let directory = StoreDirectory(path: path)
    manifest = Self.manifest(of: directory)
    let names = (try? directory.list()) ?? []
    let numbered = names.compactMap { name in StoreProgress.logNumber(name).map { ($0, name) } }
      .filter { $0.0 >= manifest?.survey.firstLog ?? 0 }
    var next: UInt64?
    for (_, name) in numbered.sorted(by: { $0.0 < $1.0 }) {
      do throws(LogFile.Fault) {
        var survey = LogSurvey(nextSequence: next)
        try LogFile.read("\(path)/\(name)") { survey.read($0, isLast: $1) }
        logs.append(Log(name: name, outcome: .read(survey)))
        next = survey.nextSequence ?? next
      } catch {
        logs.append(Log(name: name, outcome: .unreadable(code: error.code, reason: error.text)))
        // Its content is unknown.
        next = nil
      }
    }
    if let next, let last = manifest?.survey.lastSequence, last >= next {
      missingAtEnd = last - next + 1
    }
  }

  private static func manifest(
    of directory: StoreDirectory
  ) -> (name: String, survey: ManifestSurvey)? {
    guard let name = StoreProgress(of: directory)?.manifest else { return nil }
    var survey = ManifestSurvey()
    do throws(LogFile.Fault) {
      try LogFile.read("\(directory.path)/\(name)") { survey.read($0, isLast: $1) }
    } catch { return nil }
    return (name, survey)
  }

  /// Refuses to open a store whose logs or MANIFEST are damaged: the engine does not notice all of it, and then loses
  /// what follows without a word.
  static func requireWhole(_ directory: StoreDirectory) throws(StoreError) {
    let survey = StoreSurvey(path: directory.path)
    for log in survey.logs {
      if case .unreadable(let code, _) = log.outcome {
        throw directory.failure(code, "reading \(log.name)")
      }
    }
    guard let name = survey.firstDamaged else { return }
    throw .corrupted(path: directory.path, detail: "its file \(name) is damaged or incomplete")
  }

  /// The name of the MANIFEST, if a record of it is damaged. One that was only cut off is not.
  package var damagedManifest: String? {
    manifest.flatMap { $0.survey.isWhole ? nil : $0.name }
  }

  private var firstDamaged: String? {
    if let damagedManifest { return damagedManifest }
    let damaged = logs.first { $0.survey?.isWhole != true }
    return damaged?.name ?? (missingAtEnd > 0 ? logs.last?.name : nil)
  }

  /// The findings, a sentence for each file with losses; empty if there are none.
  package var findings: [String] {
    var lines = logs.compactMap { log in
      switch log.outcome {
      case .unreadable(_, let reason): "\(log.name): cannot be read: \(reason)"
      case .read(let survey): survey.isWhole ? nil : "\(log.name): \(Self.finding(survey))"
      }
    }
    guard let manifest else { return lines }
    if let damage = manifest.survey.damageOffset {
      let (before, after) = (manifest.survey.editsBefore, manifest.survey.editsAfter)
      lines.append(
        "\(manifest.name): damaged at byte \(damage); \(counted(before, "change")) of the list of tables before "
          + "that and \(after) after it are readable")
    }
    if missingAtEnd > 0, let log = logs.last {
      lines.append(
        "\(log.name): \(counted(missingAtEnd, "write")) missing at its end, which \(manifest.name) names"
      )
    }
    return lines
  }

  private static func finding(_ survey: LogSurvey) -> String {
    var parts: [String] = []
    if survey.missingWrites > 0 {
      parts.append("\(counted(survey.missingWrites, "write")) missing before or in this log")
    }
    for damage in survey.damage {
      let bytes = counted(damage.bytes, "byte")
      let unknown =
        damage.isFollowed
        ? "an unknown number of writes lost in \(bytes)"
        : "nothing in the \(bytes) from there can be read"
      let lost = damage.lostWrites.map { "\(counted($0, "write")) lost" } ?? unknown
      parts.append("damaged at byte \(damage.offset), \(lost)")
    }
    let others = survey.damageCount - survey.damage.count
    if others > 0 { parts.append("damaged in \(others) more places") }
    let (before, after) = (
      counted(survey.writesBefore, "write"), counted(survey.writesAfter, "write")
    )
    parts.append("\(before) before that and \(after) after it are readable")
    return parts.joined(separator: "; ")
  }
}
