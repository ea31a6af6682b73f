import ApusCommand
import ApusDirectory
import ApusLog
import ApusModel
import ApusWire

/// `apus backup`
struct BackupCommand {
  private let invocation: Invocation
  private let user: Operator

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    let target = invocation.operands[0]
    let start = Process.milliseconds
    let backup = try user.attempt {
      try Backup.make(
        of: user.directory, at: target, program: Program.version, nowSeconds: Process.nowSeconds,
        copyRunningStore: copyRunningStore)
    }
    user.record(.backupMade, target)
    let manifest = backup.manifest
    let milliseconds = Process.milliseconds - start
    var text =
      "\(target) has \(counted(manifest.fileCount, "file")), \(manifest.byteCount) bytes.\n"
    if user.directory.isInDatabase {
      text += "Notifications and devices are in a database, which has to be backed up as well.\n"
    }
    Report(
      fields: [
        "backup": .string(target), "files": .integer(Int64(manifest.fileCount)),
        "bytes": .integer(Int64(manifest.byteCount)), "milliseconds": .integer(milliseconds),
      ],
      text: text
    ).print(invocation)
  }

  /// The running service copies its store itself, because it alone may have it open.
  private func copyRunningStore() throws -> String {
    let answer = try AdminRemote(socketOf: user.directory, invocation)
      .ask("POST", ["store", "copy"])
    guard let path = answer["path"]?.string else {
      throw CommandFailure(.failed, "the service did not say where the copy of its store is")
    }
    return path
  }
}

/// `apus restore`
struct RestoreCommand {
  private let invocation: Invocation
  private let user: Operator
  private var directory: DataDirectory { user.directory }

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    guard let source = invocation.operands.first else { return try finish() }
    let now = Process.nowSeconds
    let report = try user.attemptAnywhere {
      if let interrupted = directory.interruptedRestore { throw DirectoryProblem(interrupted) }
      return try Restore(
        Backup(path: source), into: directory,
        keepsTokens: invocation.isOn(TrustOptions.keepsTokens), step: .random(in: 256..<1280),
        nowSeconds: now
      ).run()
    }
    user.record(.backupRestored, source)
    Report(
      fields: [
        "made": .string(Log.timestamp(report.madeSeconds * 1000)),
        "age_seconds": .integer(now - report.madeSeconds),
        "ended_tokens": report.endedTokens.map { .integer(Int64($0)) },
        "replaced": report.replaced.map { .string($0) },
        "kept": .array(report.kept.map { .string($0) }),
        "differences": .array(report.differences.map { .string($0) }),
        "withdrawn_codes": .integer(Int64(report.withdrawnCodes)),
      ], text: text(report, source, nowSeconds: now)
    ).print(invocation)
  }

  private func finish() throws(CommandFailure) {
    guard try user.attemptAnywhere({ try directory.finishRestore() }) else {
      throw CommandFailure(
        .usage, "no restore of \(directory.path) was interrupted",
        remedy: "Name a folder that `apus backup` made.")
    }
    Report(fields: ["finished": .bool(true)], text: "The restore is finished.\n").print(invocation)
  }

  private func text(_ report: Restore.Report, _ source: String, nowSeconds: Int64) -> String {
    let made = Log.timestamp(report.madeSeconds * 1000)
    let age = Self.duration(seconds: nowSeconds - report.madeSeconds)
    var lines = ["Restored \(source), made at \(made), \(age) ago. What happened since is lost."]
    if let ended = report.endedTokens {
      lines.append(
        invocation.isOn(TrustOptions.keepsTokens)
          ? "Device tokens are those of the backup: some that died since are accepted again."
          : "\(counted(ended, "device token")) ended: apps get new ones when they register.")
    }
    if let replaced = report.replaced {
      lines.append("The old content is in \(replaced).")
      lines += report.kept.map { "  still \($0)" }
      lines += report.differences.map { "  \($0)" }
    } else {
      lines.append(
        "The directory was empty: revoke again what was revoked since, and remove administrators "
          + "that were removed since.")
      if report.withdrawnCodes > 0 {
        lines.append(
          "\(counted(report.withdrawnCodes, "one-time code")) withdrawn: they may have been used.")
      }
    }
    return lines.map { $0 + "\n" }.joined()
  }

  static func duration(seconds: Int64) -> String {
    switch seconds {
    case ..<60: "\(max(0, seconds)) s"
    case ..<3600: "\(seconds / 60) min"
    case ..<172_800: "\(seconds / 3600) h \(seconds % 3600 / 60) min"
    default: "\(seconds / 86_400) days"
    }
  }
}

/// `apus check`
struct CheckCommand {
  private let invocation: Invocation
  private let user: Operator

  init(_ invocation: Invocation) {
    self.invocation = invocation
    user = Operator(invocation)
  }

  func run() throws(CommandFailure) {
    if let path = invocation[TrustOptions.backupToCheck] { return try checkBackup(path) }
    let findings = try user.attempt {
      DirectoryExamination(user.directory, nowSeconds: Process.nowSeconds).findings()
        + StoreCheck.findings(user.directory)
    }
    let isGood = !findings.contains { $0.state == .bad }
    for finding in findings {
      Report(
        fields: [
          "check": .string(finding.check), "state": .string(finding.state.rawValue),
          "text": .string(finding.text),
          "remedy": finding.remedy.isEmpty ? nil : .string(finding.remedy),
        ],
        text: table([(finding.state.rawValue, "\(finding.check): \(finding.text)")])
          + (finding.remedy.isEmpty ? "" : "        \(finding.remedy)\n")
      ).print(invocation)
    }
    if !isGood { Process.end(.configuration) }
  }

  private func checkBackup(_ path: String) throws(CommandFailure) {
    let backup = try user.attemptAnywhere {
      let backup = try Backup(path: path)
      try backup.verify()
      return backup
    }
    let manifest = backup.manifest
    let made = Log.timestamp(manifest.madeSeconds * 1000)
    Report(
      fields: [
        "made": .string(made), "program": .string(manifest.program),
        "files": .integer(Int64(manifest.fileCount)), "bytes": .integer(Int64(manifest.byteCount)),
      ],
      text: "The backup of \(made) by version \(manifest.program) is intact: "
        + "\(counted(manifest.fileCount, "file")), \(manifest.byteCount) bytes.\n"
    ).print(invocation)
  }
}
