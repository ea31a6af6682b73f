import ApusCore
import ApusDirectory
import ApusJobs
import ApusLog
import ApusModel
import ApusStore
import ApusWebhooks

/// What Prometheus reads: its text format, version 0.0.4.
struct AdminMetrics {
  let view: ServiceView
  var writer = MetricsWriter()

  init(_ view: ServiceView) { self.view = view }

  func text() -> [UInt8] {
    var copy = self
    copy.write()
    return Array(copy.writer.text.utf8)
  }

  private mutating func write() {
    let version = view.settings.version
    writer.family("apus_info", .gauge, "The version of the service.")
    writer.sample(["version": version], 1)
    writer.family("apus_start_time_seconds", .gauge, "Start time of the service, Unix seconds.")
    writer.sample([:], view.startedMilliseconds / 1000)
    writer.family("apus_ready", .gauge, "Whether the service is ready.")
    writer.sample([:], view.unreadiness == nil ? 1 : 0)
    let workers = view.service.workerFacts()
    let facts = ServiceFacts(workers)
    writeStore(facts)
    writeNodes()
    let staleness = view.service.staleness
    writer.family(
      "apus_trust_stale", .gauge,
      "Whether the trust data in use is older than the files because a reload failed.")
    writer.sample([:], staleness == nil ? 0 : 1)
    writer.family(
      "apus_trust_stale_since_seconds", .gauge,
      "Time since which the trust data is stale, Unix seconds; 0 if it is current.")
    writer.sample([:], (staleness?.sinceMilliseconds ?? 0) / 1000)
    writer.family(
      "process_resident_memory_bytes", .gauge, "Resident memory of the process.")
    writer.sample([:], residentBytes() ?? 0)
    writer.family(
      "apus_notification_memory_bytes", .gauge, "Memory of the notifications that wait in memory.")
    writer.sample([:], view.service.notificationBytes)
    writer.family(
      "apus_notification_memory_limit_bytes", .gauge,
      "Limit of that memory (--memory-megabytes); near it, providers are slowed down.")
    writer.sample([:], view.service.notificationByteLimit)
    writeWorkers(workers, facts)
    writeDevices(facts)
    writeNotifications()
    writeRefusals()
    writeEnrolments()
    writeLog()
    writeDeadTokenPushes()
    writeChannels()
    writeRelay()
    writeWebhooks()
    writeJobs()
    writeCertificates()
  }

  private mutating func writeWorkers(_ workers: [WorkerFacts], _ facts: ServiceFacts) {
    let counts = workers.reduce(ConnectionCounts()) { $0 + $1.connections }
    writer.family("apus_connections", .gauge, "Open connections per listener.")
    for kind in ListenerKind.allCases {
      for environment in Environment.allCases {
        writer.sample(
          ["listener": kind.rawValue, "environment": environment.name], counts[kind, environment])
      }
    }
    writeGate(view.service.connectionFigures, facts)
    writeLimits(facts)
    writer.family(
      "apus_open_requests", .gauge,
      "Provider requests in progress.")
    for (index, worker) in workers.enumerated() {
      writer.sample(place(index), worker.openRequests)
    }
    writer.family(
      "apus_streams_refused_total", .counter,
      "Provider streams refused: other connections use the requests, or the connection has its most."
    )
    for (index, worker) in workers.enumerated() {
      writer.sample(place(index), worker.refusedStreams)
    }
    writer.family(
      "apus_worker_inbox_depth", .gauge, "Messages from other workers in this worker's inbox.")
    for (index, worker) in workers.enumerated() {
      writer.sample(place(index), worker.inboxDepth)
    }
    writeLinks(workers.compactMap(\.link))
  }

  /// Who a row of `workerFacts` is about.
  private func place(_ index: Int) -> KeyValuePairs<String, String> {
    let count = view.service.workerCount
    return index < count ? ["worker": "\(index)"] : ["acceptor": "\(index - count)"]
  }

  private mutating func writeGate(_ gate: ConnectionFigures, _ facts: ServiceFacts) {
    writer.family(
      "apus_connections_capacity", .gauge, "Connections allowed by the process's descriptor limit.")
    writer.sample([:], gate.capacity)
    writer.family(
      "apus_connections_untrusted", .gauge,
      "Connections whose peers have not authenticated, including handshakes.")
    writer.sample([:], gate.untrusted)
    writer.family(
      "apus_connections_refused_total", .counter,
      "Connections closed for lack of room: those of an address, listener or team with too many (the newcomer or "
        + "the oldest), and those for which the process had no descriptor.")
    writer.sample(["what": "newcomer"], gate.refused)
    writer.sample(["what": "oldest"], gate.evicted)
    writer.sample(["what": "team"], gate.crowdedTeam)
    writer.sample(["what": "no_descriptor"], facts.refusedForDescriptors)
  }

  private mutating func writeLimits(_ facts: ServiceFacts) {
    writer.family(
      "apus_connections_ended_total", .counter,
      "Connections ended for a limit that their peers met.")
    for limit in ConnectionLimit.allCases {
      writer.sample(["limit": limit.rawValue], facts.ended[limit])
    }
    writer.family(
      "apus_listener_rests_total", .counter,
      "How often listeners stopped accepting for a moment: more connections came than there was room for, or the "
        + "process had no descriptor at all.")
    writer.sample(["reason": "crowded"], facts.pauses.crowded)
    writer.sample(["reason": "no_descriptor"], facts.pauses.noDescriptor)
    writer.family(
      "apus_handshakes_half_open", .gauge,
      "TLS handshakes that have begun and wait for their peers.")
    writer.sample([:], facts.halfOpenHandshakes)
  }

  private mutating func writeDevices(_ facts: ServiceFacts) {
    writer.family("apus_devices_connected", .gauge, "Connected devices.")
    for environment in Environment.allCases {
      writer.sample(["environment": environment.name], facts.sessions[environment])
    }
    writer.family(
      "apus_devices_dormant", .gauge,
      "Connected devices that are dormant and use almost no memory.")
    writer.sample([:], facts.dormancy.count)
    writer.family(
      "apus_devices_woken_total", .counter, "Wake-ups of dormant devices.")
    writer.sample([:], facts.dormancy.woken)
    writer.family(
      "apus_devices_power", .gauge, "Connected devices by reported power state.")
    for power in PowerState.allCases {
      writer.sample(["state": power.name], facts.sessions[power])
    }
    writer.family("apus_notifications_stored", .gauge, "Notifications in the store.")
    writer.sample([:], facts.stored)
    writer.family(
      "apus_notifications_in_flight", .gauge,
      "Notifications sent to devices and not yet acknowledged.")
    writer.sample([:], facts.sessions.inFlight)
    writer.family(
      "apus_acceptance_seconds", .histogram,
      "Time from a request on the HTTP/2 interface to its response 200.")
    writer.histogram(facts.latencies.acceptance)
    writer.family(
      "apus_delivery_seconds", .histogram,
      "Time from acceptance to acknowledgement, for notifications that were not stored."
    )
    writer.histogram(facts.latencies.delivery)
  }

  private mutating func writeNotifications() {
    let trust = view.trust
    let counters = view.service.topicCounters().map { ($0, view.text($0.topic, trust)) }
    writer.family(
      "apus_notifications_total", .counter,
      "Notifications that reached a state. All accepted ones reached the state received.")
    for (counters, topic) in counters {
      for state in DeliveryState.allCases where counters[state] > 0 {
        for type in [nil] + PushType.allCases.map(Optional.some) {
          for priority in Priority.allCases {
            let number = counters[state, type, priority]
            guard number > 0 else { continue }
            writer.sample(
              [
                "topic": topic, "environment": counters.environment.name,
                "state": state.label.description, "push_type": type?.name.description ?? "",
                "priority": "\(priority.rawValue)",
              ], number)
          }
        }
      }
    }
    writer.family(
      "apus_notifications_pending", .gauge, "Accepted notifications that have not ended.")
    for (counters, topic) in counters {
      writer.sample(["topic": topic, "environment": counters.environment.name], counters.pending)
    }
  }

  private mutating func writeRefusals() {
    writer.family("apus_requests_refused_total", .counter, "Rejected requests.")
    for (reason, number) in view.ownRejections() {
      writer.sample(
        ["reason": reason.text.description, "status": "\(reason.status)"], number)
    }
  }

  private mutating func writeEnrolments() {
    writer.family(
      "apus_enrolments_refused_total", .counter,
      "Certificates that devices asked for and did not get.")
    for (reason, number) in view.service.enrolmentRefusals() {
      writer.sample(["reason": reason], number)
    }
  }

  private mutating func writeLog() {
    writer.family(
      "apus_log_lines_suppressed_total", .counter,
      "Log lines suppressed because their kind reached its limit for the minute.")
    for (kind, lines) in view.log.suppressedTotals() where lines > 0 {
      writer.sample(["kind": kind.event.description], lines)
    }
  }

  private mutating func writeDeadTokenPushes() {
    let trust = view.trust
    writer.family(
      "apus_pushes_to_dead_tokens_total", .counter,
      "Pushes to device tokens invalid for more than a day, since the start of the service."
    )
    let pushes = view.service.deadTokenPushes().numbers.map { key, number in
      (view.text(key.topic, trust), key, number)
    }
    for (topic, key, number) in pushes.sorted(by: { $0.0 < $1.0 }) {
      let team = trust.directory.app(key.topic.app)?.team.text
      writer.sample(
        ["team": team ?? "", "topic": topic, "environment": key.environment.name], number)
    }
  }

  private mutating func writeChannels() {
    guard let census = view.service.channelCensus(), !census.apps.isEmpty else { return }
    let trust = view.trust
    let apps = census.apps.map { key, figures in
      (view.text(TopicKey(app: key.app), trust), key.environment, figures)
    }.sorted { ($0.0, $0.1.rawValue) < ($1.0, $1.1.rawValue) }
    func samples(_ figure: KeyPath<ChannelFigures, UInt64>) {
      for (topic, environment, figures) in apps {
        writer.sample(["topic": topic, "environment": environment.name], figures[keyPath: figure])
      }
    }
    writer.family(
      "apus_broadcasts_published_total", .counter, "Broadcasts accepted on an app's channels.")
    samples(\.published)
    writer.family(
      "apus_broadcasts_delivered_total", .counter,
      "Broadcasts that devices acknowledged, counted for each device.")
    samples(\.delivered)
    writer.family(
      "apus_channel_subscriptions", .gauge, "Subscriptions of devices to an app's channels.")
    samples(\.subscriptions)
    writer.family(
      "apus_channel_subscribers", .gauge, "Devices that are subscribed to channels of an app.")
    samples(\.subscribers)
  }

  private mutating func writeWebhooks() {
    let webhooks = view.service.webhookFacts()
    writer.family(
      "apus_webhook_events_delivered_total", .counter, "Events that a webhook's receiver accepted.")
    for webhook in webhooks { writer.sample(["webhook": webhook.name], webhook.delivered) }
    writer.family(
      "apus_webhook_failures_total", .counter, "Requests to a webhook's receiver that failed.")
    for webhook in webhooks { writer.sample(["webhook": webhook.name], webhook.failures) }
    writer.family(
      "apus_webhook_events_waiting", .gauge, "Events in the queue behind what a webhook was sent.")
    for webhook in webhooks { writer.sample(["webhook": webhook.name], webhook.waiting) }
    writer.family(
      "apus_webhook_events_dropped_total", .counter,
      "Events dropped because the queue was full (--webhook-megabytes).")
    writer.sample([:], view.service.droppedEvents)
  }

  private mutating func writeJobs() {
    let jobs = view.jobs.facts().filter { $0.endedMilliseconds == nil }
    writer.family(
      "apus_jobs", .gauge,
      "Pushes to several devices that are not over; waiting while the store takes no writes.")
    writer.sample(["state": "running"], jobs.count { !$0.isWaiting })
    writer.sample(["state": "waiting"], jobs.count(where: \.isWaiting))
    writer.family(
      "apus_jobs_devices_pending", .gauge, "Devices of these jobs that have no outcome yet.")
    writer.sample([:], jobs.reduce(0) { $0 + $1.job.deviceCount - $1.doneCount })
  }

  private mutating func writeCertificates() {
    writer.family(
      "apus_certificate_expiry_seconds", .gauge,
      "Expiry of a certificate, Unix seconds: of the service, its authorities, those shown to upstreams, providers "
        + "that have connected, and devices whose certificates expire within 30 days.")
    // Of two under one name the one that ends first counts: a series must not come twice.
    var ends: [String: (entry: ExpiryWatch.Entry, notAfter: Int64)] = [:]
    let own = (try? view.namedCertificates().map(\.entry)) ?? []
    for entry in own + view.expiries.known() {
      let key = "\(entry.kind.rawValue) \(entry.name)"
      let earliest = min(ends[key]?.notAfter ?? .max, entry.notAfter)
      ends[key] = (entry, earliest)
    }
    for (_, end) in ends.sorted(by: { $0.key < $1.key }) {
      writer.sample(["kind": end.entry.kind.rawValue, "name": end.entry.name], end.notAfter)
    }
  }
}

/// Writes families of samples.
struct MetricsWriter {
  enum Kind: String {
    case counter
    case gauge
    case histogram
  }

  private(set) var text = ""
  private var name = ""
  /// Behind the name, in samples of a histogram.
  private var suffix = ""

  /// Begins a family; the samples that follow are its.
  mutating func family(_ name: String, _ kind: Kind, _ help: String) {
    (self.name, suffix) = (name, "")
    text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
  }

  mutating func sample(_ labels: KeyValuePairs<String, String>, _ value: some BinaryInteger) {
    sample(labels, "\(value)")
  }

  /// A bucket for each power of two of milliseconds, up to nine minutes.
  mutating func histogram(_ histogram: MillisecondHistogram) {
    suffix = "_bucket"
    for bit in 0..<20 {
      sample(["le": Self.seconds(1 << UInt64(bit))], histogram.count(belowBit: bit))
    }
    sample(["le": "+Inf"], histogram.count)
    suffix = "_sum"
    sample([:], Self.seconds(histogram.sumMilliseconds))
    suffix = "_count"
    sample([:], histogram.count)
  }

  private static func seconds(_ milliseconds: UInt64) -> String {
    let fraction = "\(milliseconds % 1000)"
    return "\(milliseconds / 1000)." + String(repeating: "0", count: 3 - fraction.count) + fraction
  }

  private mutating func sample(_ labels: KeyValuePairs<String, String>, _ value: String) {
    text += name + suffix
    if !labels.isEmpty {
      text += "{"
      for (index, (key, value)) in labels.enumerated() {
        text += "\(index == 0 ? "" : ",")\(key)=\"\(Self.escaped(value))\""
      }
      text += "}"
    }
    text += " \(value)\n"
  }

  /// In a label's value the backslash, the quotation mark and the end of a line are escaped.
  private static func escaped(_ value: String) -> String {
    var escaped = ""
    for scalar in value.unicodeScalars {
      switch scalar {
      case "\\": escaped += "\\\\"
      case "\"": escaped += "\\\""
      case "\n": escaped += "\\n"
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }
}
