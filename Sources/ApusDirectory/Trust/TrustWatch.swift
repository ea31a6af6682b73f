import ApusCore
package import ApusLog
package import ApusLoop

/// Looks at what trust is made of, and says when some of it changed.
///
/// A revocation must bite within a second, whoever wrote it: a command, an operator's editor, or the authority's tool
/// that puts a new list into `crls`. Four times a second the files are asked for their stamps, which costs some ten
/// calls of the system; they are read only when a stamp is another one. inotify would save those calls and lose events
/// on network file systems.
///
/// It has a loop and a thread of its own: reading and checking files must not hold up those that serve.
@safe package final class TrustWatch: @unchecked Sendable {
  static let periodMilliseconds: UInt64 = 250

  package let loop = EventLoop(name: "apus-trust")
  private let directory: DataDirectory
  private let identity: DirectoryIdentity
  private let log: Log
  private var isLost = false
  private let expiries: ExpiryWatch
  private let reloads: @Sendable () -> Bool
  private var stamps: [FileStamp]
  private var retry = ReloadRetry()
  private var timer: LoopTimer?
  private var hourly: LoopTimer?

  /// - Parameters:
  ///   - stamps: From before the trust data was read that is in force.
  ///   - reloads: Called on the loop's thread; false where it failed, to be called again. What is changed while it
  ///     runs is seen the next time.
  package init(
    _ directory: DataDirectory, _ identity: DirectoryIdentity, _ expiries: ExpiryWatch,
    since stamps: [FileStamp], log: Log, reloads: @escaping @Sendable () -> Bool
  ) {
    self.directory = directory
    self.identity = identity
    self.log = log
    self.expiries = expiries
    self.reloads = reloads
    self.stamps = stamps
  }

  package func start() {
    let timer = LoopTimer(loop: loop) { [unowned self] in look() }
    timer.start(
      afterMilliseconds: Self.periodMilliseconds, repeatMilliseconds: Self.periodMilliseconds)
    self.timer = timer
    let hourly = LoopTimer(loop: loop) { [unowned self] in lookAtOwnCertificates() }
    hourly.start(afterMilliseconds: 0, repeatMilliseconds: 3_600_000)
    self.hourly = hourly
    loop.start()
  }

  private func look() {
    let loss = identity.loss
    if let loss, !isLost { log(.error, "data directory lost", .text("reason", loss)) }
    isLost = loss != nil
    let now = directory.trustStamps()
    guard now != stamps || retry.isDue(nowMilliseconds: loop.nowMilliseconds) else { return }
    // Before they are read: a change in between is one more change.
    stamps = now
    reload()
  }

  /// As if something had changed. On the loop's thread.
  package func reload() {
    if reloads() {
      retry.succeeded()
    } else {
      retry.failed(nowMilliseconds: loop.nowMilliseconds)
    }
    lookAtOwnCertificates()
  }

  private func lookAtOwnCertificates() {
    // What cannot be read has been told of where it was to be used.
    guard let own = try? directory.ownCertificates() else { return }
    expiries.forgetOwn(besides: own)
    for entry in own {
      expiries.look(at: entry, nowSeconds: EventLoop.wallClockMilliseconds() / 1000)
    }
  }

  package func stop() {
    loop.perform { [self] in (timer, hourly) = (nil, nil) }
    loop.stop()
    loop.join()
  }
}

extension DataDirectory {
  /// The stamps of everything that ``trust(generation:allowsES512:)`` reads. Files of which there may be many, the
  /// public halves of keys, count by their folder: they are made and replaced in it, never written over.
  package func trustStamps() -> [FileStamp] {
    var paths = [directoryFile, sealingFile, "\(path)/keys", "\(path)/authority"]
    for authority in [Authority.service, .devices] { paths.append(authorityCertificate(authority)) }
    paths += [serverFiles, serverRSAFiles].flatMap { [$0.certificate, $0.key] }
    paths.append(revocationListPath)
    // A folder that cannot be listed makes the reload fail, which is tried again.
    paths += (try? revocationLists()) ?? []
    return paths.map(FileStamp.init)
  }
}
