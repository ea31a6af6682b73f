import ApusDirectory
package import ApusModel
package import ApusTrust

/// Requests for certificates that wait for the operator.
///
/// A request is several files, which are changed under the lock of the data directory. The enrolment thread adds and
/// removes requests; commands and the administration decide on them.
package struct PendingEnrolments: Sendable {
  let directory: DataDirectory

  var path: String { "\(directory.path)/enrolment/pending" }

  package enum State: Sendable, Hashable {
    case waiting
    case approved(certificateDER: [UInt8])
    case rejected
  }

  package struct Request: Sendable, Hashable {
    /// SHA-256 of the public key, 64 digits.
    package var key: String
    /// What the device calls itself, which proves nothing.
    package var name: String
    /// Where it asked from.
    package var address: String
    package var seconds: Int64
    /// The id that its certificate is to have.
    package var device: DeviceID
    /// Whether the device has this id already, and asks for a newer certificate.
    package var isRenewal: Bool
    /// Whether it came with a code that is good.
    package var hasCode: Bool
    package var state: State
    /// The operator's, of its code, and those that the device chose.
    package var tags: [DeviceTag]

    /// How it was made. Each origin has room of its own on the list, so that requests without a code cannot take that
    /// of the others.
    package enum Origin: String, Sendable {
      case renewal
      case code = "with a code"
      case withoutCode = "without a code"
    }

    package var origin: Origin { isRenewal ? .renewal : hasCode ? .code : .withoutCode }

    package init(
      key: String, name: String, address: String, seconds: Int64, device: DeviceID,
      isRenewal: Bool, hasCode: Bool, state: State = .waiting, tags: [DeviceTag] = []
    ) {
      self.tags = tags
      self.key = key
      self.name = name
      self.address = address
      self.seconds = seconds
      self.device = device
      self.isRenewal = isRenewal
      self.hasCode = hasCode
      self.state = state
    }
  }

  /// The certificate request of a key, as PEM, for an authority elsewhere.
  package func requestFile(_ key: String) -> String { "\(path)/\(key).csr" }
  private func recordFile(_ key: String) -> String { "\(path)/\(key)\(Self.recordSuffix)" }
  private func certificateFile(_ key: String) -> String { "\(path)/\(key).crt" }
  private func rejectionFile(_ key: String) -> String { "\(path)/\(key).rejected" }

  private static let recordSuffix = ".conf"

  // MARK: Reading

  package func find(_ key: String) throws -> Request? {
    let file = recordFile(key)
    guard let section = try EnrolmentCodes.section(file) else { return nil }
    guard let device = section["device"].flatMap(DeviceID.init(text:)),
      let seconds = section["at"].flatMap({ Int64($0) })
    else { throw DirectoryProblem("\(file): malformed request file") }
    return Request(
      key: key, name: section["name"] ?? "", address: section["address"] ?? "", seconds: seconds,
      device: device, isRenewal: section["renewal"] == "yes", hasCode: section["code"] == "yes",
      state: try state(key), tags: section.words("tags").compactMap(DeviceTag.init))
  }

  private func state(_ key: String) throws -> State {
    guard Files.exists(certificateFile(key)) else {
      return Files.exists(rejectionFile(key)) ? .rejected : .waiting
    }
    let pem = try Files.readText(certificateFile(key))
    return .approved(certificateDER: try Certificate(pem: pem).der)
  }

  /// All requests, the oldest first.
  package func all() throws -> [Request] {
    try DurableFile.names(in: path).filter { $0.hasSuffix(Self.recordSuffix) }
      .compactMap { try find(String($0.dropLast(Self.recordSuffix.count))) }
      .sorted { ($0.seconds, $0.key) < ($1.seconds, $1.key) }
  }

  // MARK: The service's side

  enum Addition: Equatable { case added, full, tooManyFromAddress }

  /// Whether there is room for a request on a list of others. Those that were decided take none.
  static func judge(_ request: Request, among others: [Request]) -> Addition {
    let rivals = others.filter { $0.state == .waiting && $0.origin == request.origin }
    if rivals.count >= Limits.pendingEnrolments { return .full }
    guard request.origin == .withoutCode else { return .added }
    let near = rivals.count { $0.address == request.address }
    return near >= Limits.pendingEnrolmentsPerAddress ? .tooManyFromAddress : .added
  }

  /// Puts a request on the list.
  func add(_ request: Request, _ certificateRequest: CertificateRequest) throws -> Addition {
    // Without the lock, so that requests that find the list full keep no operator waiting. Nobody else adds, and a
    // decision only makes room.
    let judgement = Self.judge(request, among: try all())
    guard judgement == .added else { return judgement }
    var values = [
      ("device", request.device.text), ("at", String(request.seconds)),
      ("address", request.address),
    ]
    if !request.name.isEmpty { values.append(("name", request.name)) }
    if !request.tags.isEmpty {
      values.append(("tags", request.tags.map(\.text).joined(separator: " ")))
    }
    if request.isRenewal { values.append(("renewal", "yes")) }
    if request.hasCode { values.append(("code", "yes")) }
    let text = SectionFile(sections: [.init(kind: "", name: "", values: values)])
    try directory.changing {
      try Files.makeDirectory(path)
      try Files.write(certificateRequest.pem, to: requestFile(request.key), isPrivate: true)
      _ = try DurableFile.create(
        Array(text.text(heading: "").utf8), at: recordFile(request.key))
    }
    return .added
  }

  func remove(_ key: String) throws {
    // The record first: without it the others are nothing.
    let files = [recordFile(key), certificateFile(key), rejectionFile(key), requestFile(key)]
    // Most keys have no files. Then the lock is not taken, because taking it may mean waiting.
    guard files.contains(where: Files.exists) else { return }
    // An approval between two of them would leave a certificate for whatever the key asks for next.
    try directory.changing {
      for file in files { try DurableFile.remove(file) }
    }
  }

  /// Removes what is too old, decided or not.
  func prune(nowSeconds: Int64) throws {
    for request in try all()
    where nowSeconds - request.seconds >= Limits.pendingEnrolmentSeconds {
      try remove(request.key)
    }
  }

  // MARK: The operator's side

  /// The request whose key begins with these digits.
  package func request(_ prefix: String) throws -> Request {
    let found = try all().filter { $0.key.hasPrefix(prefix.lowercased()) }
    guard let first = found.first else {
      throw DirectoryProblem("no pending request has a key that begins with \(prefix)")
    }
    guard found.count == 1 else {
      throw DirectoryProblem("\(found.count) pending requests have keys that begin with \(prefix)")
    }
    return first
  }

  package func certificateRequest(_ key: String) throws -> CertificateRequest {
    guard let request = CertificateRequest(pem: try Files.readText(requestFile(key))) else {
      throw DirectoryProblem("\(requestFile(key)): not a usable certificate request")
    }
    return request
  }

  /// Throws if the request is already approved.
  func requireNotApproved(_ request: Request) throws(DirectoryProblem) {
    guard case .approved = request.state else { return }
    throw DirectoryProblem("the request of \(request.key) is already approved")
  }

  /// Lays the certificate out for the device, which gets it when it asks again.
  package func approve(_ request: Request, _ certificate: Certificate) throws {
    let isFirst = try DurableFile.create(
      Array(certificate.pem.utf8), at: certificateFile(request.key))
    guard isFirst else {
      throw DirectoryProblem("the request of \(request.key) is already approved")
    }
    try DurableFile.remove(rejectionFile(request.key))
  }

  package func reject(_ request: Request) throws {
    if case .approved = request.state {
      throw DirectoryProblem(
        "the request of \(request.key) is already approved: to undo that, retire the device "
          + request.device.text)
    }
    _ = try DurableFile.create([], at: rejectionFile(request.key))
  }
}
