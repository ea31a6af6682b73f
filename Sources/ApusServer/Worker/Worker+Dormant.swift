import ApusCore
import ApusLoop
import ApusModel
import ApusTLS
import ApusWire

// Moves a connected device into a row of `DormantDevices`, and back.
//
//   awake --quiet for `dormantSeconds`, and representable--> dormant
//   dormant --socket readable, device or connection looked up, deadline reached--> awake

extension Worker {
  var dormantSeconds: UInt64 { configuration.dormantSeconds }

  /// Replaces the objects of a quiet device by a row. Does nothing and returns false if the connection is not a quiet
  /// device's, or if a row cannot represent its state.
  func fallDormant(_ connection: Connection) -> Bool {
    let now = Int64(loop.nowMilliseconds)
    guard !isDrainingDevices, let courier = connection.quietCourier(atMilliseconds: now),
      let device = courier.device, device.mayFallDormant(atMilliseconds: now),
      let listener = dormant.reserve(connection.slot, connection.listener)
    else { return false }
    var row = DormantRow(courier, device, listener: listener, atMilliseconds: now)
    row.socket = connection.park()
    dormant.insert(row, at: connection.slot)
    row.tls?.wipe()
    connections[Int(connection.slot)] = nil
    shard.cache.release(device.key)
    watchDormant(connection.slot)
    return true
  }

  /// Recreates the objects of a dormant device in their previous state.
  @discardableResult func wake(_ slot: Int32) -> Connection {
    let index = Int(slot)
    let listener = dormant.listener(of: slot)
    let key = dormant.rows[index].key
    let device = shard.cache.makeDevice(key, dormant.rows[index].registration)
    dormant.rows[index].restore(device, slot: slot)
    let connection = Connection(
      worker: self, waking: dormant.rows[index], slot: slot, generation: generations[index],
      listener: listener, device: device)
    dormant.remove(at: slot)
    connections[index] = connection
    shard.cache.keep(device)
    watch(connection)
    // The worker told its connections to end while this one was dormant.
    if isDrainingDevices { connection.drain() }
    return connection
  }

  /// Called when the wheel reaches a dormant device.
  func lookAtDormant(_ slot: Int32, _ now: UInt64) {
    guard dormant.has(slot), UInt64(dormant.rows[Int(slot)].watchedSeconds) <= now else { return }
    dormant.rows[Int(slot)].watchedSeconds = .max
    if deadlineSeconds(of: dormant.rows[Int(slot)]) <= now {
      wake(slot).deadlineReached()
    } else {
      watchDormant(slot)
    }
  }

  /// Second of the worker's clock at which the silence timeout ends or the certificate expires.
  fileprivate func deadlineSeconds(of row: borrowing DormantRow) -> UInt64 {
    guard let end = row.certificate?.notAfter else { return row.silenceSeconds }
    return min(row.silenceSeconds, secondAfter(end))
  }

  private func watchDormant(_ slot: Int32) {
    watchDormant(slot, deadlineSeconds(of: dormant.rows[Int(slot)]))
  }

  private func watchDormant(_ slot: Int32, _ deadlineSeconds: UInt64) {
    guard deadlineSeconds < dormant.rows[Int(slot)].watchedSeconds else { return }
    let entry = DeadlineWheel.Entry(slot: slot, generation: generations[Int(slot)])
    dormant.rows[Int(slot)].watchedSeconds = UInt32(
      clamping: wheel.add(entry, deadlineSeconds: deadlineSeconds))
  }

  /// Called when the trust was replaced or the clock jumped. Wakes only the devices whose connections must end.
  func judgeDormant(hasLostAuthority: Bool) {
    let now = certificateSeconds
    for slot in dormant.slots {
      let certificate = dormant.rows[Int(slot)].certificate
      if certificate?.fault(trust, hasLostAuthority: hasLostAuthority, nowSeconds: now) != nil {
        wake(slot).trustChanged(hasLostAuthority: hasLostAuthority)
      } else {
        watchDormant(slot)
      }
    }
  }
}

/// Passes the loop's socket events for dormant devices to the worker. A separate object, because the loop refers to it
/// weakly, and a weakly referenced object has slower reference counting.
final class DormantSockets: ParkedSocketHandler {
  private unowned let worker: Worker

  init(worker: Worker) { self.worker = worker }

  func parkedSocketReady(_ tag: Int32) { worker.wake(tag).socketReadable() }
}

extension Connection {
  /// The device's protocol, if nothing is pending in it or on its connection.
  fileprivate func quietCourier(atMilliseconds now: Int64) -> CourierConnection? {
    guard stage == .open, ending == .none, !isPeerFinished, !isReadingPaused, !isDirty,
      unsentByteCount == 0, case .courier(let courier) = driver,
      courier.stage == .serving, !courier.isStopping, courier.arrival == nil,
      courier.framer.partialBytes == 0, courier.output.isEmpty, courier.tokenAnswers.isEmpty,
      courier.keepAlives.isFull(atMilliseconds: now),
      courier.issuing?.isAsked != true, courier.issuing?.held == nil
    else { return nil }
    return courier
  }

  /// Leaves the socket to the loop and retires this object. The peer does not notice.
  fileprivate func park() -> Int32 {
    driver = .none
    stage = .closed
    return socket.park(tag: slot)
  }

  /// Resumes a dormant connection.
  fileprivate convenience init(
    worker: Worker, waking row: borrowing DormantRow, slot: Int32, generation: UInt32,
    listener: ServiceListener, device: Device
  ) {
    let tls: TLSConnection
    if let kept = row.rest?.tls {
      tls = kept
    } else if let packed = row.tls {
      tls = TLSConnection(packed, context: listener.context)
    } else {
      preconditionFailure("a dormant connection has no TLS")
    }
    self.init(
      worker: worker, listener: listener, slot: slot, generation: generation,
      socket: Socket(parked: row.socket, loop: worker.loop), peer: row.peer, tls: tls,
      acceptedMilliseconds: row.acceptedMilliseconds, stage: .open)
    remainTrusted(as: .device)
    driver = .courier(CourierConnection(self, waking: row, device: device))
    deadlineSeconds = worker.deadlineSeconds(of: row)
    quietSeconds = worker.nowSeconds + worker.dormantSeconds
    watchedSeconds = row.watchedSeconds == .max ? .max : UInt64(row.watchedSeconds)
  }
}
