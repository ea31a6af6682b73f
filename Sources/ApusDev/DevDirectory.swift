import ApusCore
import ApusDirectory
import ApusLoop
import ApusModel
import ApusTrust
import Glibc

/// The data directory of a development service: a given one, or a temporary one.
struct DevDirectory {
  let data: DataDirectory
  let isThrowAway: Bool
  let topics: [String]
  let team: String
  let keyID: String
  let keyFile: String
  let certificateFile: String
  /// Locks the directory for this process; the system releases the lock when the process ends.
  private let lock: Int32

  init(_ configuration: DevConfiguration) throws {
    isThrowAway = configuration.dataDirectory == nil
    let path = try configuration.dataDirectory ?? Self.makeThrowAway()
    let data = DataDirectory(path: path)
    self.data = data
    try Files.makeDirectory(path)
    lock = try Self.lock(path)
    let now = EventLoop.wallClockMilliseconds() / 1000
    let rsaBits = configuration.usesRSA ? Self.rsaBits : nil
    if !data.isProvisioned {
      // A directory that is kept may be one with legacy TLS in its next run.
      let servesOldClients = configuration.allowsLegacyTLS || !isThrowAway
      _ = try data.initialize(
        names: configuration.certificateNames, topic: configuration.topics[0],
        teamName: "Development", authorityRSABits: rsaBits, nowSeconds: now,
        rsaKey: servesOldClients ? { try DataDirectory.makeRSAKey() } : nil)
    } else {
      try Self.prepare(data, configuration, now)
    }
    let records = try data.records()
    guard
      let key = records.sections.first(where: { section in
        section.kind == "key" && section["revoked"] != "yes"
          && ShortID(section.name).map { Files.exists(data.privateKey($0)) } == true
      }), let id = ShortID(key.name), let team = key["team"], let teamID = ShortID(team)
    else {
      throw DirectoryProblem("\(path) has no provider key with its private half")
    }
    let apps = records.sections.filter { $0.kind == "app" }
    for app in apps where app["broadcast"] != "on" {
      try data.changeApp(app.name, broadcasts: true)
    }
    var topics = apps.map(\.name)
    for topic in configuration.topics where !topics.contains(topic) {
      try data.addApp(topic, team: teamID, broadcasts: true)
      topics.append(topic)
    }
    if let upstream = configuration.upstream {
      for topic in configuration.topics { try data.changeApp(topic, upstream: .set(upstream)) }
    }
    // The first requested topic is used in the examples.
    self.topics = configuration.topics + topics.filter { !configuration.topics.contains($0) }
    self.team = team
    keyID = id.text
    keyFile = data.privateKey(id)
    certificateFile = try Self.certificate(
      configuration.topics[0], teamID, data, rsaBits: rsaBits, now)
  }

  private static let rsaBits = 2048

  /// Makes a kept directory suit the configuration.
  private static func prepare(
    _ data: DataDirectory, _ configuration: DevConfiguration, _ now: Int64
  ) throws {
    if configuration.usesRSA {
      let authority = try Certificate(pem: Files.readText(data.authorityCertificate(.service)))
      guard case .rsa = authority.keyKind else {
        throw DirectoryProblem(
          "the authority of \(data.path) has an ECDSA key: --rsa needs another --data")
      }
    }
    let names = configuration.certificateNames
    let known = try data.serverCertificate().serverNames
    guard !names.allSatisfy(known.contains) else { return }
    try data.rotateServer(names: names + known.filter { !names.contains($0) }, nowSeconds: now)
  }

  /// The certificate of an earlier run, or a new one.
  private static func certificate(
    _ topic: String, _ team: ShortID, _ data: DataDirectory, rsaBits: Int?, _ now: Int64
  ) throws -> String {
    let names = try Files.names(in: data.issuedPath)
    if let name = names.filter({ $0.hasPrefix("\(topic)-") && $0.hasSuffix(".pem") }).max() {
      return "\(data.issuedPath)/\(name)"
    }
    let identity = try data.issueProvider(
      topic: topic, team: team, extraTopics: nil, environments: .both, rsaBits: rsaBits,
      nowSeconds: now)
    return identity.pemFile ?? identity.certificateFile
  }

  // MARK: The file system

  /// Makes a temporary directory, in memory if possible, because its files need no sync to a disk.
  private static func makeThrowAway() throws -> String {
    let places = [
      unsafe getenv("TMPDIR").map { unsafe String(cString: $0) },
      unsafe getenv("XDG_RUNTIME_DIR").map { unsafe String(cString: $0) }, "/dev/shm", "/tmp",
    ].compactMap(\.self)
    for place in places {
      var template = Array("\(place)/apus-dev-XXXXXX".utf8CString)
      // Mode 0700.
      if unsafe mkdtemp(&template) != nil {
        return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
      }
    }
    throw DirectoryProblem(
      "cannot make a directory in \(places.joined(separator: ", ")): set TMPDIR to another one")
  }

  private static func lock(_ path: String) throws -> Int32 {
    let file = "\(path)/dev.lock"
    let descriptor = unsafe open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else {
      throw DirectoryProblem("cannot open \(file): \(unsafe String(cString: strerror(errno)))")
    }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      close(descriptor)
      throw DirectoryProblem(
        "another `apus dev` uses \(path): stop it, or give another --data")
    }
    return descriptor
  }

  /// Deletes the directory if it is temporary.
  func remove() {
    // A child process may briefly have a copy of the descriptor and so keep the lock.
    flock(lock, LOCK_UN)
    close(lock)
    if isThrowAway { Self.remove(data.path) }
  }

  private static func remove(_ path: String) {
    // Never follows a symbolic link: unlink removes the link itself.
    if unsafe unlink(path) == 0 || errno == ENOENT { return }
    for name in (try? Files.names(in: path)) ?? [] { remove("\(path)/\(name)") }
    unsafe rmdir(path)
  }
}
