import ApusCore
package import ApusLog
package import ApusLoop

/// Watches the files of the trust data and of the listeners' certificates, and reloads them when one changes.
///
/// A revocation must apply within a second, whether it comes from a command, an editor, or the authority's tool that
/// writes a new list into `crls`. The watch compares the files' stamps four times a second, which costs about twelve
/// system calls and one for each file of an upstream, and reads the files only if a stamp has changed. inotify would
/// save those calls, but misses events on network file systems.
///
/// It has its own loop and thread: reading and checking files must not delay the threads that serve.
@safe package final class TrustWatch: @unchecked Sendable {
  static let periodMilliseconds: UInt64 = 250

  package let loop = EventLoop(name: "apus-trust")
  private let directory: DataDirectory
  private let identity: DirectoryIdentity
  private let log: Log
  private var isLost = false
  private let expiries: ExpiryWatch
  private let certificates: ServerCertificates
  private let labels: LabelRegister
  private var labelFault: String?
  private var malformedLabels = 0
  private let reloads: @Sendable () -> Bool
  private let presents: @Sendable () -> Void
  private var stamps: [FileStamp]
  private var retry = ReloadRetry()
  private var certificateRetry = ReloadRetry()
  private var timer: LoopTimer?
  private var hourly: LoopTimer?

  /// - Parameters:
  ///   - stamps: Taken before the current trust data was read.
  ///   - reloads: Called on the loop's thread; returns false if it failed and must be retried. Changes made while it
  ///     runs are detected the next time.
  ///   - presents: Called on the loop's thread when only certificates of listeners have changed.
  package init(
    _ directory: DataDirectory, _ identity: DirectoryIdentity, _ expiries: ExpiryWatch,
    _ certificates: ServerCertificates, _ labels: LabelRegister, since stamps: [FileStamp],
    log: Log,
    reloads: @escaping @Sendable () -> Bool, presents: @escaping @Sendable () -> Void
  ) {
    self.directory = directory
    self.identity = identity
    self.log = log
    self.expiries = expiries
    self.certificates = certificates
    self.labels = labels
    self.reloads = reloads
    self.presents = presents
    self.stamps = stamps
  }

  package func start() {
    readLabels()
    let timer = LoopTimer(loop: loop) { [unowned self] in look() }
    timer.start(
      afterMilliseconds: Self.periodMilliseconds, repeatMilliseconds: Self.periodMilliseconds)
    self.timer = timer
    let hourly = LoopTimer(loop: loop) { [unowned self] in lookAtOwnCertificates() }
    hourly.start(afterMilliseconds: 0, repeatMilliseconds: 3_600_000)
    self.hourly = hourly
    loop.start()
  }

  /// The service runs without them: they decide nothing.
  private func readLabels() {
    var fault: String?
    do { try labels.refresh() } catch { fault = "\(error)" }
    if let fault, fault != labelFault {
      log(.error, "names and tags of devices not read", .text("reason", fault))
    }
    labelFault = fault
    let malformed = labels.malformedLines.count
    if malformed > malformedLabels {
      log(
        .warning, "names and tags of devices have malformed lines",
        .text("file", directory.labelFile), .number("lines", malformed))
    }
    malformedLabels = malformed
  }

  private func look() {
    readLabels()
    let loss = identity.loss
    if let loss, !isLost { log(.error, "data directory lost", .text("reason", loss)) }
    isLost = loss != nil
    if refreshCertificates(
      readsAll: certificateRetry.isDue(nowMilliseconds: loop.nowMilliseconds))
    {
      presents()
      lookAtOwnCertificates()
    }
    let now = directory.trustStamps()
    guard now != stamps || retry.isDue(nowMilliseconds: loop.nowMilliseconds) else { return }
    // Set before reading: a change during the reload must trigger another one.
    stamps = now
    reloadTrust()
  }

  /// True if a listener is to present another certificate.
  private func refreshCertificates(readsAll: Bool, isAsked: Bool = false) -> Bool {
    let outcome = certificates.refresh(readsAll: readsAll, isAsked: isAsked)
    if outcome.hasFailed {
      certificateRetry.failed(nowMilliseconds: loop.nowMilliseconds)
    } else if readsAll || outcome.hasNew {
      certificateRetry.succeeded()
    }
    return outcome.hasNew
  }

  /// Reloads as if all files had changed. Call it on the loop's thread.
  package func reload() {
    if refreshCertificates(readsAll: true, isAsked: true) { presents() }
    reloadTrust()
  }

  private func reloadTrust() {
    if reloads() {
      retry.succeeded()
    } else {
      retry.failed(nowMilliseconds: loop.nowMilliseconds)
    }
    lookAtOwnCertificates()
  }

  private func lookAtOwnCertificates() {
    // Unreadable files are reported where they are used.
    guard let own = try? directory.namedCertificates().map(\.entry) else { return }
    let renewed = certificates.named().map(\.entry)
    let now = EventLoop.wallClockMilliseconds() / 1000
    expiries.tidy(own: own + renewed, nowSeconds: now)
    for entry in own { expiries.look(at: entry, nowSeconds: now) }
    for entry in renewed {
      expiries.look(
        at: entry, nowSeconds: now, remedy: "renew the files of --server-certificate")
    }
  }

  package func stop() {
    loop.perform { [self] in (timer, hourly) = (nil, nil) }
    loop.stop()
    loop.join()
  }
}

extension DataDirectory {
  /// The stamps of all files that ``trust(generation:allowsES512:)`` reads. The stamp of the folder covers the public
  /// keys, of which there may be many: they are created and replaced in it, never overwritten in place.
  package func trustStamps() -> [FileStamp] {
    var paths = [directoryFile, sealingFile, "\(path)/keys", "\(path)/authority"]
    for authority in [Authority.service, .devices] { paths.append(authorityCertificate(authority)) }
    paths += [serverFiles, serverRSAFiles].flatMap { [$0.certificate, $0.key] }
    paths.append(revocationListPath)
    // If the folder cannot be listed, the reload fails and is retried.
    paths += (try? revocationLists()) ?? []
    paths += upstreamFilePaths()
    return paths.map(FileStamp.init)
  }
}
