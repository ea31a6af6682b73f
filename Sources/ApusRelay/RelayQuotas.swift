import ApusCore
import ApusDirectory
import ApusModel
import Synchronization

/// The quotas of all apps that have an upstream, and of their teams.
final class RelayQuotas: Sendable {
  private struct State {
    /// The team of each app with a quota of its own or of its team.
    var teams: [AppID: ShortID] = [:]
    var ofApps: [AppID: RelayQuota] = [:]
    var ofTeams: [ShortID: RelayQuota] = [:]

    mutating func waitSeconds(_ app: AppID, _ team: ShortID, _ now: UInt64) -> Int {
      max(
        ofApps[app]?.waitSeconds(nowMilliseconds: now) ?? 0,
        ofTeams[team]?.waitSeconds(nowMilliseconds: now) ?? 0)
    }

    mutating func take(_ app: AppID, _ team: ShortID) {
      ofApps[app]?.take()
      ofTeams[team]?.take()
    }
  }

  private let state = Mutex(State())

  /// Uses the quotas of `trust`. Those that have not changed go on counting.
  func replace(_ trust: Trust, nowMilliseconds now: UInt64) {
    state.withLock { old in
      var new = State()
      func quota(_ perSecond: Int, _ old: RelayQuota?) -> RelayQuota {
        if let old, old.perSecond == perSecond { return old }
        return RelayQuota(perSecond: perSecond, nowMilliseconds: now)
      }
      for team in trust.directory.teams {
        guard let perSecond = team.upstreamPerSecond else { continue }
        new.ofTeams[team.id] = quota(perSecond, old.ofTeams[team.id])
      }
      for app in trust.directory.apps {
        guard let upstream = trust.upstreams[app.id] else { continue }
        if let perSecond = upstream.perSecond {
          new.ofApps[app.id] = quota(perSecond, old.ofApps[app.id])
        }
        if upstream.perSecond != nil || new.ofTeams[app.team] != nil {
          new.teams[app.id] = app.team
        }
      }
      old = new
    }
  }

  /// Counts a notification, if it may go now. Returns 0 then, else the seconds until one may.
  func admit(_ app: AppID, nowMilliseconds now: UInt64) -> Int {
    state.withLock { state in
      guard let team = state.teams[app] else { return 0 }
      let seconds = state.waitSeconds(app, team, now)
      if seconds == 0 { state.take(app, team) }
      return seconds
    }
  }

  /// Counts a notification, and returns the seconds until the next one may go; 0 for at once.
  func charge(_ app: AppID, nowMilliseconds now: UInt64) -> Int {
    state.withLock { state in
      guard let team = state.teams[app] else { return 0 }
      state.take(app, team)
      return state.waitSeconds(app, team, now)
    }
  }
}
