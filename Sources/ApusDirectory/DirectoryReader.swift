import ApusCore
import ApusModel
import ApusTrust
import ApusWire

/// Turns the sections of `directory.conf` into records.
struct DirectoryReader {
  let directory: DataDirectory

  func read(
    _ file: SectionFile, verifiers: inout [ProviderKeyVerifier], allowsES512: Bool
  ) throws -> DirectoryBuilder {
    var builder = DirectoryBuilder()
    var apps: [String: AppID] = [:]
    guard !file.sections.isEmpty else {
      throw DirectoryProblem(
        "\(directory.directoryFile) is empty, but must list teams, keys, apps and "
          + "revocations: restore it from a backup")
    }
    for section in file.sections {
      switch section.kind {
      case "team":
        builder.teams.append(try team(section))
      case "app":
        let app = try app(section)
        apps[section.name] = app.id
        builder.apps.append(app)
      case "retired": builder.retiredDevices.append(try retiredDevice(section))
      case "key", "revoked": continue
      case "":
        throw DirectoryProblem(
          "\(directory.directoryFile), line \(section.line): a value before the first section; "
            + "put it below a heading such as [key ABC123DEFG], or remove it")
      default:
        throw problem(
          section, "unknown kind of section, expected team, key, app, revoked or retired")
      }
    }
    for section in file.sections where section.kind == "key" {
      var key = try key(section, apps: apps, index: verifiers.count)
      let verifier = try verifier(key.id, section, allowsES512)
      verifiers.append(verifier)
      key.publicKey = verifier.publicKey.mark
      builder.keys.append(key)
    }
    for section in file.sections where section.kind == "revoked" {
      builder.revokedCertificates.append(try fingerprint(section))
    }
    return builder
  }

  private func app(_ section: SectionFile.Section) throws -> App {
    guard let number = section["id"].flatMap({ UInt32($0) }) else {
      throw problem(section, "id must be a unique number")
    }
    let retain = section["retain"] ?? "1"
    guard let retention = Int(retain) else {
      throw problem(section, "retain must be a number of notifications, not \"\(retain)\"")
    }
    let broadcast = section["broadcast"] ?? "off"
    guard ["on", "off"].contains(broadcast) else {
      throw problem(section, "broadcast must be on or off, not \"\(broadcast)\"")
    }
    return App(
      id: AppID(number), bundleID: Array(section.name.utf8),
      team: try id(section["team"] ?? "", section), retention: retention,
      broadcasts: broadcast == "on")
  }

  private func team(_ section: SectionFile.Section) throws -> Team {
    var team = Team(id: try id(section.name, section), name: section["name"] ?? "")
    if let text = section["upstream-per-second"] {
      do throws(DirectoryProblem) {
        team.upstreamPerSecond = try UpstreamSettings.rate(text)
      } catch { throw problem(section, "\(error)") }
    }
    return team
  }

  private func key(
    _ section: SectionFile.Section, apps: [String: AppID], index: Int
  ) throws -> ProviderKey {
    let names = section.words("environments")
    let environments = try names.reduce(into: EnvironmentSet()) { set, name in
      guard let environment = Environment(name: name) else {
        throw problem(section, "environments are production and development, not \(name)")
      }
      set.formUnion(EnvironmentSet(environment))
    }
    let topics = try section["topics"].map { _ in
      try section.words("topics").map { name in
        guard let app = apps[name] else {
          throw problem(section, "topics names \(name), which is not an app in this file")
        }
        return app
      }
    }
    return ProviderKey(
      id: try id(section.name, section), team: try id(section["team"] ?? "", section),
      environments: names.isEmpty ? .both : environments, topics: topics,
      relatedKey: try section["related"].map { try id($0, section) },
      isRevoked: section["revoked"] == "yes", index: index, publicKey: 0)
  }

  private func verifier(
    _ id: ShortID, _ section: SectionFile.Section, _ allowsES512: Bool
  ) throws -> ProviderKeyVerifier {
    let path = directory.publicKey(id)
    do {
      return try ProviderKeyVerifier(
        publicKey: PublicKey(spkiPEM: Files.readText(path)), lenient: allowsES512)
    } catch {
      throw problem(section, "\(error) (\(path))")
    }
  }

  private func fingerprint(_ section: SectionFile.Section) throws -> CertificateFingerprint {
    guard let bytes = Hex.decode(Array(section.name.utf8).span),
      let value = CertificateFingerprint(bytes.span)
    else { throw problem(section, "a certificate's SHA-256 must have 64 hexadecimal digits") }
    return value
  }

  private func retiredDevice(_ section: SectionFile.Section) throws -> RetiredDevice {
    guard let device = DeviceID(text: section.name) else {
      throw problem(section, "a device id must have 16 hexadecimal digits")
    }
    // In milliseconds, the time must still fit 64 bits.
    guard let since = section["since"].flatMap({ Int64($0) }), 0...(1 << 40) ~= since else {
      throw problem(section, "since must be the time in seconds since 1970")
    }
    return RetiredDevice(id: device, sinceSeconds: since)
  }

  private func id(_ text: String, _ section: SectionFile.Section) throws -> ShortID {
    guard let id = ShortID(text) else {
      throw problem(
        section, "the id of a team or key must have 10 letters and digits, not \"\(text)\"")
    }
    return id
  }

  func problem(_ section: SectionFile.Section, _ text: String) -> DirectoryProblem {
    DirectoryProblem(
      "\(directory.directoryFile), line \(section.line), [\(section.kind) \(section.name)]: \(text)"
    )
  }
}
