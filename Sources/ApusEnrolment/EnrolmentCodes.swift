import ApusDirectory
package import ApusModel
import ApusTrust
package import ApusWire

/// The one-time codes of a service, of which only the SHA-256 is kept.
///
/// Each use creates a file exclusively, so neither concurrent devices nor a crash can exceed a code's number of uses.
/// The file holds the certificate: a device that repeats its request with the same code and key, because the answer was
/// lost, gets the same certificate.
/// Changes that depend on several files are made under the lock of the data directory.
package struct EnrolmentCodes: Sendable {
  let directory: DataDirectory

  var path: String { "\(directory.path)/enrolment/codes" }

  /// What a code may do.
  package struct Record: Sendable, Hashable {
    /// The device's name in its certificate, and for people; nil: the device says it.
    package var name: String?
    package var madeSeconds: Int64
    /// Unix seconds from which on it makes no more devices.
    package var expiresSeconds: Int64
    /// Devices that it may make.
    package var uses: Int
    /// Of each device that it makes.
    package var tags: [DeviceTag]
    /// Whether a device may add tags of its own.
    package var allowsOwnTags: Bool

    package init(
      name: String?, madeSeconds: Int64, expiresSeconds: Int64, uses: Int, tags: [DeviceTag] = [],
      allowsOwnTags: Bool = false
    ) {
      self.tags = tags
      self.allowsOwnTags = allowsOwnTags
      self.name = name
      self.madeSeconds = madeSeconds
      self.expiresSeconds = expiresSeconds
      self.uses = uses
    }
  }

  /// One device that a code made.
  package struct Use: Sendable, Hashable {
    /// SHA-256 of the public key, 64 digits.
    package var key: String
    package var device: DeviceID
    package var seconds: Int64
    /// Nil where an authority elsewhere is to issue it: then it comes by way of `PendingEnrolments`.
    package var certificateDER: [UInt8]?
  }

  /// How a code stands with a key.
  enum Standing {
    case unknown
    case expired(Record)
    case usedUp(Record)
    /// This key has used it before.
    case used(Record, Use)
    /// It may make a device: by the use of that number.
    case free(Record, use: Int)
  }

  // MARK: The operator's side

  /// Makes a code; its text is nowhere but in what is returned.
  package func make(_ record: Record) throws -> EnrolmentCode {
    var values = [
      ("made", String(record.madeSeconds)), ("expires", String(record.expiresSeconds)),
      ("uses", String(record.uses)),
    ]
    if let name = record.name { values.append(("name", name)) }
    if !record.tags.isEmpty {
      values.append(("tags", record.tags.map(\.text).joined(separator: " ")))
    }
    if record.allowsOwnTags { values.append(("own-tags", "yes")) }
    let code = EnrolmentCode(bytes: randomBytes(EnrolmentCode.byteCount))
    // Two commands at once would both take the last place.
    try directory.changing {
      try Files.makeDirectory(path)
      let count = try DurableFile.names(in: path).count { !$0.contains(".") }
      guard count < Limits.enrolmentCodes else {
        throw DirectoryProblem(
          "there are already \(count) codes; withdraw some, or wait until some expire")
      }
      guard try create(file(Self.hash(code)), values) else {
        preconditionFailure("the generator gave the same 128 bits twice")
      }
    }
    return code
  }

  /// Every code by its SHA-256, with how often it was used; the newest first.
  package func all() throws -> [(hash: String, record: Record, used: Int)] {
    let names = try DurableFile.names(in: path)
    var used: [Substring: Int] = [:]
    for name in names where name.contains(".") {
      used[name.prefix { $0 != "." }, default: 0] += 1
    }
    return try names.filter { !$0.contains(".") }.compactMap { hash in
      try record(hash).map { (hash, $0, used[hash[...], default: 0]) }
    }.sorted { $0.record.madeSeconds > $1.record.madeSeconds }
  }

  /// Removes a code and the records of its uses; false if it does not exist. Devices enrolled with it stay valid.
  package func withdraw(hash: String) throws -> Bool {
    try directory.changing {
      guard let record = try record(hash) else { return false }
      // The uses last: a code without them would make devices again.
      try DurableFile.remove(file(hash))
      for use in 1...record.uses { try DurableFile.remove(file(hash, use)) }
      return true
    }
  }

  package static func hash(_ code: EnrolmentCode) -> String {
    let bytes = code.bytes
    return SHA256Digest(of: bytes.span).hex
  }

  // MARK: The service's side

  /// - Parameter key: SHA-256 of the public key, 64 digits.
  func standing(_ code: EnrolmentCode, key: String, nowSeconds: Int64) throws -> Standing {
    let hash = Self.hash(code)
    guard let record = try record(hash) else { return .unknown }
    var free: Int?
    for number in 1...record.uses {
      guard let use = try use(hash, number) else {
        free = number
        break
      }
      if use.key == key { return .used(record, use) }
    }
    guard nowSeconds < record.expiresSeconds else { return .expired(record) }
    guard let free else { return .usedUp(record) }
    return .free(record, use: free)
  }

  /// Uses the code: durable when it returns. False where somebody was faster, or has withdrawn the code; then nothing
  /// is changed.
  func take(_ code: EnrolmentCode, use number: Int, _ use: Use) throws -> Bool {
    var values = [
      ("key", use.key), ("device", use.device.text), ("at", String(use.seconds)),
    ]
    if let der = use.certificateDER {
      values.append(("certificate", String(decoding: Hex.encode(der.span), as: UTF8.self)))
    }
    let hash = Self.hash(code)
    return try directory.changing {
      // A use without its code would stay for good.
      guard Files.exists(file(hash)) else { return false }
      return try create(file(hash, number), values)
    }
  }

  /// Removes codes that expired at least `Limits.enrolmentCodeKeptSeconds` ago.
  func prune(nowSeconds: Int64) throws {
    for (hash, record, _) in try all()
    where nowSeconds - record.expiresSeconds >= Limits.enrolmentCodeKeptSeconds {
      _ = try withdraw(hash: hash)
    }
  }

  // MARK: Files

  private func file(_ hash: String) -> String { "\(path)/\(hash)" }
  private func file(_ hash: String, _ use: Int) -> String { "\(path)/\(hash).\(use)" }

  private func create(_ file: String, _ values: [(String, String)]) throws -> Bool {
    let text = SectionFile(sections: [.init(kind: "", name: "", values: values)])
    return try DurableFile.create(Array(text.text(heading: "").utf8), at: file)
  }

  private func record(_ hash: String) throws -> Record? {
    guard let section = try Self.section(file(hash)) else { return nil }
    guard let made = section["made"].flatMap({ Int64($0) }),
      let expires = section["expires"].flatMap({ Int64($0) }),
      let uses = section["uses"].flatMap({ Int($0) }), 1...Limits.enrolmentCodeUses ~= uses
    else { throw DirectoryProblem("\(file(hash)): malformed code file") }
    return Record(
      name: section["name"], madeSeconds: made, expiresSeconds: expires, uses: uses,
      tags: section.words("tags").compactMap(DeviceTag.init),
      allowsOwnTags: section["own-tags"] == "yes")
  }

  private func use(_ hash: String, _ number: Int) throws -> Use? {
    let file = file(hash, number)
    guard let section = try Self.section(file) else { return nil }
    guard let key = section["key"], let device = section["device"].flatMap(DeviceID.init(text:)),
      let seconds = section["at"].flatMap({ Int64($0) })
    else { throw DirectoryProblem("\(file): malformed record of a code's use") }
    return Use(
      key: key, device: device, seconds: seconds,
      certificateDER: section["certificate"].flatMap { Hex.decode(Array($0.utf8).span) })
  }

  /// The values of a small file; nil where there is none.
  static func section(_ file: String) throws -> SectionFile.Section? {
    let text: String
    do throws(FileError) {
      text = try Files.readText(file)
    } catch {
      if error.isMissing { return nil }
      throw error
    }
    return try SectionFile(text: text).sections.first
      ?? SectionFile.Section(kind: "", name: "")
  }
}
