import ApusModel
import ApusTrust

/// Carries over what a directory knows of the time since a backup, so that nothing that was revoked, removed or used
/// is trusted again.
///
/// Teams, apps with their upstreams, and keys come from the backup. Authorities, certificates of the server, sealing
/// keys, revocations, enrolment, names and tags of devices, administrators, webhooks, jobs and the audit log stay those
/// of the directory.
struct RestoredTrust {
  private let new: DataDirectory
  private let current: DataDirectory

  init(_ new: DataDirectory, keeping current: DataDirectory) {
    (self.new, self.current) = (new, current)
  }

  /// What stays, if the directory has it.
  private static let kept = [
    "authority", "server", "sealing.keys", "crls", "crls.made", "enrolment", "admin.tokens",
    "webhooks.conf", "webhooks", "audit.jsonl", "connect.nonces", "jobs", "devices.tsv",
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
      func names(_ sections: [SectionFile.Section]) -> Set<String> {
        Set(sections.filter { $0.kind == kind }.map(\.name))
      }
      let (before, now) = (names(theirs), names(ours))
      return now.subtracting(before).sorted().map {
        "not in the backup, so it is gone: \(kind) \($0)"
      }
        + before.subtracting(now).sorted().map {
          "removed since the backup, and back now: \(kind) \($0)"
        }
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
    let known = try new.records().sections
    let names = Set(known.map { "\($0.kind) \($0.name)" })
    let now = try current.records().sections
    let revoked = Set(now.filter { $0.kind == "key" && $0["revoked"] == "yes" }.map(\.name))
    // From the last one on: a new line moves those below it.
    for key in known.reversed()
    where key.kind == "key" && revoked.contains(key.name) && key["revoked"] != "yes" {
      text.set("revoked", to: "yes", in: key)
      found.append("revoked key \(key.name)")
    }
    for section in now where !names.contains("\(section.kind) \(section.name)") {
      switch section.kind {
      case "revoked": found.append("revoked certificate \(section.name)")
      case "retired": found.append("retired device \(section.name)")
      default: continue
      }
      text.append(section)
    }
    if !found.isEmpty { try Files.write(text.text, to: new.directoryFile, isPrivate: false) }
    return found
  }
}
