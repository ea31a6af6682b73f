import ApusDirectory
import ApusModel
import ApusWire

/// The files of jobs.
///
/// ```
/// ID.devices    the ids of the devices, 8 bytes each
/// ID.job        what is sent, and for whom: JSON; with it the job is accepted
/// ID.results    5 bytes for each device that is done: its place, and a `GroupOutcome`; appended to
/// ID.end        when it ended and how: JSON; with it the job is over
/// ```
///
/// A file of results that was cut off lacks devices, of which the store and the ledger tell: see `JobTraces`.
struct JobFolder: Sendable {
  private let directory: DataDirectory
  private var path: String { "\(directory.path)/jobs" }

  init(_ directory: DataDirectory) { self.directory = directory }

  static let resultByteCount = 5

  /// What is known of a job that is over.
  struct End: Sendable, Equatable {
    var milliseconds: Int64
    var counts: [GroupOutcome: Int]
  }

  private func file(_ job: NotificationID, _ kind: String) -> String {
    "\(path)/\(job.text).\(kind)"
  }

  // MARK: Writing

  func create(_ job: PushJob, _ devices: [DeviceID]) throws {
    try Files.makeDirectory(path)
    let bytes = [UInt8](capacity: 8 * devices.count) { output in
      for device in devices { output.append(bigEndian: device.rawValue) }
    }
    do {
      try directory.sharing {
        try Files.write(bytes, to: file(job.id, "devices"), isPrivate: true)
        guard try DurableFile.create(job.json.bytes, at: file(job.id, "job")) else {
          preconditionFailure("two jobs with one id")
        }
      }
    } catch {
      remove(job.id)
      throw error
    }
  }

  static func append(_ outcome: PlacedOutcome, to bytes: inout [UInt8]) {
    bytes.append(bigEndian: outcome.place)
    bytes.append(outcome.outcome.rawValue)
  }

  /// - Parameter byteCount: The bytes of the results that were appended before. What a failed call left behind them is
  ///   removed.
  func append(_ bytes: [UInt8], to job: NotificationID, after byteCount: Int) throws {
    try directory.sharing {
      try Files.append(bytes, to: file(job, "results"), after: byteCount)
    }
  }

  /// Syncs the results, and ends the job.
  func end(_ job: NotificationID, _ end: End) throws {
    if Files.exists(file(job, "results")) { try Files.sync(file(job, "results")) }
    var members = [
      JSONObject.Member(key: "milliseconds", value: .integer(end.milliseconds))
    ]
    for outcome in GroupOutcome.allCases {
      guard let count = end.counts[outcome] else { continue }
      members.append(.init(key: outcome.name, value: .integer(Int64(count))))
    }
    try directory.sharing {
      _ = try DurableFile.create(JSONValue.object(JSONObject(members)).bytes, at: file(job, "end"))
    }
  }

  /// Removes a job. The end first: a job without it would begin again.
  func remove(_ job: NotificationID) {
    // What a cluster's database cannot be told now, the next attempt tells it.
    try? directory.sharing {
      for kind in ["job", "end", "results", "devices"] { Files.remove(file(job, kind)) }
    }
  }

  // MARK: Reading

  /// The files of all jobs.
  func files() throws -> [String] {
    try DurableFile.names(in: path).filter { $0.hasSuffix(".job") }.map { "\(path)/\($0)" }
  }

  /// Reads a job; with its end if it is over.
  func job(_ file: String) throws -> (job: PushJob, end: End?) {
    guard let job = PushJob(json: try Self.json(file)) else { throw Self.damage(file) }
    return (job, try end(of: job.id))
  }

  private static func damage(_ file: String) -> DirectoryProblem {
    DirectoryProblem("\(file) is damaged; the service goes on without this job: remove its files")
  }

  private func end(of job: NotificationID) throws -> End? {
    guard Files.exists(file(job, "end")) else { return nil }
    let json = try Self.json(file(job, "end"))
    var counts: [GroupOutcome: Int] = [:]
    for outcome in GroupOutcome.allCases {
      if let count = json[outcome.name]?.integer { counts[outcome] = Int(count) }
    }
    return End(milliseconds: json["milliseconds"]?.integer ?? 0, counts: counts)
  }

  private static func json(_ file: String) throws -> JSONValue {
    let bytes = try Files.read(file)
    return (try? JSONValue(parsing: bytes.span)) ?? .null
  }

  func devices(of job: PushJob) throws -> [DeviceID] {
    let file = file(job.id, "devices")
    let bytes = try Files.readWhole(file)
    guard bytes.count == 8 * job.deviceCount else { throw Self.damage(file) }
    return stride(from: 0, to: bytes.count, by: 8).map { start in
      DeviceID(bytes.span.bigEndianUInt64(at: start))
    }
  }

  /// The outcome of each device by its place, 0 for one without, and the bytes that say so.
  func outcomes(of job: PushJob) throws -> (outcomes: [UInt8], byteCount: Int) {
    var outcomes = [UInt8](repeating: 0, count: job.deviceCount)
    let file = file(job.id, "results")
    guard Files.exists(file) else { return (outcomes, 0) }
    let bytes = try Files.readWhole(file)
    let byteCount = bytes.count - bytes.count % Self.resultByteCount
    for start in stride(from: 0, to: byteCount, by: Self.resultByteCount) {
      let place = Int(bytes.span.bigEndianUInt32(at: start))
      if place < outcomes.count, GroupOutcome(rawValue: bytes[start + 4]) != nil {
        outcomes[place] = bytes[start + 4]
      }
    }
    return (outcomes, byteCount)
  }
}

extension DataDirectory {
  var jobFolder: JobFolder { JobFolder(self) }
}
