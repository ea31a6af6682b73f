/// The files of an app's upstream, in the folder `upstreams` of the data directory.
struct UpstreamFiles {
  /// The raw values are what their names have behind the bundle id.
  enum Part: String, CaseIterable {
    case key = ".p8"
    case certificate = ".crt"
    case certificateKey = ".key"
    case proxyPassword = ".proxy-password"
    case authority = ".authority.crt"

    /// Whether only the owner may read it.
    var isPrivate: Bool { self != .certificate && self != .authority }
  }

  private let base: String

  /// - Throws: That the bundle id cannot be the name of a file.
  init(_ directory: DataDirectory, _ bundleID: String) throws(DirectoryProblem) {
    guard !bundleID.contains("/"), !bundleID.hasPrefix(".") else {
      throw DirectoryProblem(
        "an app with an upstream needs a bundle id without slashes that begins with no dot: files "
          + "are named after it")
    }
    // Its certificate would be the authority of another app's upstream.
    guard !bundleID.hasSuffix(".authority") else {
      throw DirectoryProblem("an app whose bundle id ends in .authority cannot have an upstream")
    }
    base = "\(directory.upstreamPath)/\(bundleID)"
  }

  func remove() throws(FileError) {
    for part in Part.allCases { try DurableFile.remove(path(part)) }
  }

  func path(_ part: Part) -> String { base + part.rawValue }

  /// The content of a file; nil if there is none.
  ///
  /// - Throws: Why it cannot be read.
  func read(_ part: Part) throws(DirectoryProblem) -> String? {
    do throws(FileError) {
      return try Files.readText(path(part))
    } catch {
      if error.isMissing { return nil }
      throw DirectoryProblem(
        "\(error); the user of the service must be allowed to read it, and to enter its folders")
    }
  }
}

extension DataDirectory {
  /// Missing if no app has an upstream.
  var upstreamPath: String { "\(path)/upstreams" }

  /// The folder and its files: an operator may overwrite one in place.
  func upstreamFilePaths() -> [String] {
    // If the folder cannot be listed, the reload fails and is retried.
    let names = ((try? Files.names(in: upstreamPath)) ?? []).sorted()
    return [upstreamPath] + names.map { "\(upstreamPath)/\($0)" }
  }
}
