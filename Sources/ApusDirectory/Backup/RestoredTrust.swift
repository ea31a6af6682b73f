import ApusModel
import ApusTrust

/// Carries over what a directory knows of the time since a backup, so that nothing that was revoked, removed or used
/// is trusted again.
///
/// Teams, apps and keys come from the backup. Authorities, certificates of the server, sealing keys, revocations,
/// enrolment, administrators and the audit log stay those of the directory.
struct RestoredTrust {
  private let new: DataDirectory
  private let current: DataDirectory

  init(_ new: DataDirectory, keeping current: DataDirectory) {
    (self.new, self.current) = (new, current)
  }

  /// What stays, if the directory has it.
  private static let kept = [
    "authority", "server", "sealing.keys", "crls", "crls.made", "enrolment", "admin.tokens",
    "audit.jsonl", "connect.nonces",
  ]

  /// Refuses the backup of another service, whose device tokens this one cannot open.
  func requireSameService() throws {
    let (theirs, ours) = (try new.sealingKeys().keys, try current.sealingKeys().keys)
    guard theirs.contains(where: { key in ours.contains { $0.bytes == key.bytes } }) else {
      throw DirectoryProblem(
        "\(current.path) belongs to another service than the backup, or has replaced its sealing keys "
          + "since: restore into an empty directory")
    }
  }

  /// What the two have of teams, apps and keys that the other has not.
  func differences() throws -> [String] {
    let (theirs, ours) = (try new.records().sections, try current.records().sections)
    return ["team", "app", "key"].flatMap { kind in
      func names(_ sections: [SectionFile.Section]) -> [String] {
        sections.filter { $0.kind == kind }.map(\.name)
      }
      let added = names(ours).filter { !names(theirs).contains($0) }
      let removed = names(theirs).filter { !names(ours).contains($0) }
      return added.map { "not in the backup, so it is gone: \(kind) \($0)" }
        + removed.map { "removed since the backup, and back now: \(kind) \($0)" }
    }
  }

  /// - Returns: The revocations that the backup did not have, in words.
  func run() throws -> [String] {
    for name in Self.kept where Files.exists("\(current.path)/\(name)") {
      let target = "\(new.path)/\(name)"
      if Files.exists(target) { try FileTree.remove(target) }
      try FileTree.copy("\(current.path)/\(name)", to: target)
    }
    try Files.makeDirectory(new.issuedPath)
    for name in try Files.names(in: current.issuedPath)
    where !Files.exists("\(new.issuedPath)/\(name)") {
      try FileTree.copy("\(current.issuedPath)/\(name)", to: "\(new.issuedPath)/\(name)")
    }
    return try addRevocations()
  }

  private func addRevocations() throws -> [String] {
    var text = DirectoryText(try Files.readText(new.directoryFile))
    var found: [String] = []
    for section in try current.records().sections {
      // Each change moves the lines of the sections below.
      let known = try SectionFile(text: text.text).sections.first {
        $0.kind == section.kind && $0.name == section.name
      }
      switch (section.kind, known) {
      case ("revoked", nil):
        text.append(section)
        found.append("revoked certificate \(section.name)")
      case ("retired", nil):
        text.append(section)
        found.append("retired device \(section.name)")
      case ("key", let known?) where section["revoked"] == "yes" && known["revoked"] != "yes":
        text.set("revoked", to: "yes", in: known)
        found.append("revoked key \(section.name)")
      default: continue
      }
    }
    if !found.isEmpty { try Files.write(text.text, to: new.directoryFile, isPrivate: false) }
    return found
  }
}
