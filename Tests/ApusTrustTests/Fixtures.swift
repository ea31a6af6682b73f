// Keys, tokens and certificates created by the openssl command line: fixed, so that Apus did not write what it reads.

enum Fixtures {
  /// Signs the tokens below, and is used nowhere else.
  static let p8 = """
    -----BEGIN PRIVATE KEY-----
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgdqzqmLQMaGVFTZFQ
    kI6bBJ6E7CNcl7undFi9ve+rVaGhRANCAASrcLYrqQxBl3M40UINpJhmu3yOdkON
    lAMU8796+TDav9Lpoi22PHw/Rlc878M66NFA/Py45CXCzCYKwyqR3se2
    -----END PRIVATE KEY-----
    """

  /// The same key as `openssl ec` writes it, after the parameters that `openssl ecparam` writes first.
  static let ecPEM = """
    -----BEGIN EC PARAMETERS-----
    BggqhkjOPQMBBw==
    -----END EC PARAMETERS-----
    -----BEGIN EC PRIVATE KEY-----
    MHcCAQEEIHas6pi0DGhlRU2RUJCOmwSehOwjXJe7p3RYvb3vq1WhoAoGCCqGSM49
    AwEHoUQDQgAEq3C2K6kMQZdzONFCDaSYZrt8jnZDjZQDFPO/evkw2r/S6aIttjx8
    P0ZXPO/DOujRQPz8uOQlwswmCsMqkd7Htg==
    -----END EC PRIVATE KEY-----
    """

  /// The same key, encrypted.
  static let encryptedPEM = """
    -----BEGIN ENCRYPTED PRIVATE KEY-----
    MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjnF1vItGdg1gICCAAw
    DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEHL98VZaaYQA/jZCC0tki70EgZDR
    EPOhQW1ex8I/et5AunW8jH19s2gj10EAejNttaNC1u8SV800/RY5ai48AArHFBLI
    wHDEYTPo0osEpX/DPKynb6noYWhygSTqcFbMRz8bLBMf2CGyLWzz5l1e8OV7dxhr
    QK/yCMT2PnRhBJxH+GMYnHDHh3ORsVqI9LNMoJ7epULGXznzaDIv/az7XNunRVk=
    -----END ENCRYPTED PRIVATE KEY-----
    """

  static let spkiPEM = """
    -----BEGIN PUBLIC KEY-----
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEq3C2K6kMQZdzONFCDaSYZrt8jnZD
    jZQDFPO/evkw2r/S6aIttjx8P0ZXPO/DOujRQPz8uOQlwswmCsMqkd7Htg==
    -----END PUBLIC KEY-----
    """

  static let spkiSHA256 = "9a8e864c2361ec62c7af1b1787d9e803d6ac77ccc480c1b55c5de6de9e162649"

  static let p384 = """
    -----BEGIN PRIVATE KEY-----
    MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDDIyTX4B2theCj5kZw9
    /qEEkJ/kxMgA5XLzeHDc/ZBd/itcGjAhODfIVKqOaoXok9ihZANiAASo7nWyeUvO
    VOLNsUbNbm9voYhyxPd3O3s3yDee4bGAShejQuC7SXkg6vXC2SpwEaXYmCgPp/En
    8tVkzUOzLKF14UevNDReF1Tr2SFHRjuyihW5gXpHipXmax+WLdZOTgo=
    -----END PRIVATE KEY-----
    """

  /// {"alg":"ES256","kid":"ABC123DEFG"} {"iss":"DEF123GHIJ","iat":1437179036}
  static let rawToken =
    "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ"
    + ".eyJpc3MiOiJERUYxMjNHSElKIiwiaWF0IjoxNDM3MTc5MDM2fQ"
    + ".WMycdgdgvJ5vtvmTVDbjEDv4zk30-CQCPzPR5J2sCmjvAI9eZJCO_7pFQmSShS13NLG40cSkh9GA0CHN"
    + "o6MLiQ"

  /// The same with "typ":"JWT", signed as DER.
  static let derToken =
    "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkciLCJ0eXAiOiJKV1QifQ"
    + ".eyJpc3MiOiJERUYxMjNHSElKIiwiaWF0IjoxNDM3MTc5MDM2fQ"
    + ".MEQCIH_G_L97CQV0MvYvl9aaFkk4DuyjyCGr8usloOj3ueBlAiBLnLWhkb8hns7WlifYltrF09FKBjQm"
    + "q_LTkaLA6K4Q_A"

  /// The first with ES512: SHA-512, r and s in 66 bytes each.
  static let es512Token =
    "eyJhbGciOiJFUzUxMiIsImtpZCI6IkFCQzEyM0RFRkcifQ"
    + ".eyJpc3MiOiJERUYxMjNHSElKIiwiaWF0IjoxNDM3MTc5MDM2fQ"
    + ".AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAJ7k6BAKJ4wJ1RPZ9jJ-PDKJCH7XkJEel2yg"
    + "HN6_5A2SAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAANUphRzGPfPXsXRYHyn-mx8tuXY4"
    + "jT82Ly7l6adqNWGw"

  /// UID com.eatthepath.pushy, OU DEF123GHIJ, both environments, the topics of pushy's test certificate.
  static let providerPEM = """
    -----BEGIN CERTIFICATE-----
    MIIC5zCCAoygAwIBAgIQAQIDBAUGBwgJCgsMDQ4PEDAKBggqhkjOPQQDAjB8MSQw
    IgYKCZImiZPyLGQBAQwUY29tLmVhdHRoZXBhdGgucHVzaHkxMjAwBgNVBAMMKUFw
    cGxlIFB1c2ggU2VydmljZXM6IGNvbS5lYXR0aGVwYXRoLnB1c2h5MRMwEQYDVQQL
    DApERUYxMjNHSElKMQswCQYDVQQGEwJVUzAeFw0yNjExMjExMDExMzVaFw0yNzEx
    MjExMDExMzVaMHwxJDAiBgoJkiaJk/IsZAEBDBRjb20uZWF0dGhlcGF0aC5wdXNo
    eTEyMDAGA1UEAwwpQXBwbGUgUHVzaCBTZXJ2aWNlczogY29tLmVhdHRoZXBhdGgu
    cHVzaHkxEzARBgNVBAsMCkRFRjEyM0dISUoxCzAJBgNVBAYTAlVTMFkwEwYHKoZI
    zj0CAQYIKoZIzj0DAQcDQgAEq3C2K6kMQZdzONFCDaSYZrt8jnZDjZQDFPO/evkw
    2r/S6aIttjx8P0ZXPO/DOujRQPz8uOQlwswmCsMqkd7HtqOB7zCB7DAMBgNVHRMB
    Af8EAjAAMBMGA1UdJQQMMAoGCCsGAQUFBwMCMBAGCiqGSIb3Y2QGAwEEAgUAMBAG
    CiqGSIb3Y2QGAwIEAgUAMIGDBgoqhkiG92NkBgMGBHUwcwwUY29tLmVhdHRoZXBh
    dGgucHVzaHkwBQwDYXBwDBljb20uZWF0dGhlcGF0aC5wdXNoeS52b2lwMAYMBHZv
    aXAMIWNvbS5lYXR0aGVwYXRoLnB1c2h5LmNvbXBsaWNhdGlvbjAODAxjb21wbGlj
    YXRpb24wHQYDVR0OBBYEFNDOi681DXTYUW6GG0cfHCg8wyThMAoGCCqGSM49BAMC
    A0kAMEYCIQCTVXJLlNFn8cYrWyVP5HuazoECc0I4gL2RoKv0JgFd9AIhAJpBcf49
    lAjm/edXh2zUXqADGf1AXNnL797DfWqzg0cG
    -----END CERTIFICATE-----
    """

  static let rsaPEM = """
    -----BEGIN RSA PRIVATE KEY-----
    MIIEowIBAAKCAQEAzonQ3k8EWZjj68zQMNPcVVW91Ai2bBXWCYf7EYos+0/6/rZh
    AIYFWu9z9UIAu/wUD0w+bqq3HTzB6WF+Z67WSHw+w2irSHMVgnHaUwcewFDjVmI/
    q9WWz1JoFGWS1Exx6HuAbOz+RgwlpFwj5DTcv6VV+wXlzXCGj6y+Z64/GofVefve
    a61kniaXrw8nUjX5JxUDwkfcIBCufPKzq58f4FipAoa2459qoYeApEv7QQrl/G1U
    7qZPVdFnWpaUr8Su2+GqrNByXoWdywWIwn6Lq3DZbK3Va+4LtPViudIM3xRcd4j4
    SoILfBDvBO1m1Mrwpczl1oRNbp57OejAziB+pwIDAQABAoIBACQeFJDzp3KVmnHf
    QJ7xRYwEsOv11BTFosbK6TxRefk+rMlDEmZ5iVE0I4aFksRM2iMstZQ7tUbfG5fY
    zTaLa/yEAaPBV4aVXXMQvtmbGqUN4Bt4leLSOIurwPikJI+MiLTbeANUVEjikeiS
    llIvblTzMDxz9RI+dcGFN0zBO1bDjluuZtosnbsEJrcWjFuxqY0ybZtdLg8lL/dS
    47y9CSS9V3OgpuCBDeCmLKh54MYEmRNKcFW9q3iYaaUHDEv4hibf5KDcE0JJKfOP
    2RsdoLKzm5lmE7FFUv3jL9j79Tweyvlur6QuA/ARpZFodDWxjRY3874JK2+c06dn
    4acfCF0CgYEA/mF9Y9tOsNAfoq2PKmwFrqLj81TgPenfW1hsgPufzA/lU8zS1WLN
    VxxIRMyBVdqqgobSH/38rguQm85M8Ac7F8SrezgVFpDOKF5lrmHAWwpPACn6GlpZ
    YzeD6XsP7djbz9VB6R56cb5AUGG6KkfGM9670kGJQFtcVE0b3Rkj1Z0CgYEAz9pe
    DhRofQTVyW5YXLjXxdtGdPCklDsOiA9oQMpzPWRv+lowVa1z4ZpD+UBO8jLp39OR
    rVA5BYByW1vYI32kYaOaOWbYMZxoepRKD89rpUIAMLwDfC46cSH6XUN0GizgH7X0
    Es4Kb08vpAfi6GyW8/qcHiMBS4k3pb3S11T29BMCgYEAm4jySQcDkzp9zVK/cZnA
    06mHJPXlchW4WrqzBR5U80lY16cp1gzmLnf9fAtqnRrpHIvgmG0MfUJW9dzqz+wr
    5nl6vAlrY3PAiZBGLZxZJ5EjAp+n60sI0pBUGIMFF1F7/RSQiz/2b+t6mWtXj5h5
    CKgMQR+PEwmJZ4YKHmLLtUUCgYAS9z310u7l2XcYdjUh4Mvvhd6b9QlPbUQaLi25
    G8AALhX5phka+ETGpSjmqXOKrhKhFdEJG3TYh6vnoi3Kr0A8mI0OB9BaVodCCB3p
    62dLIQaba8x1nFJA2HTb5bfGW6nnutaWkK5rEbKrKP0PcDkl8gwkw9Tua4rkWLnQ
    ZDRUeQKBgFcq8ueqkLjAnvV/653EKIReX+k3DYNZoq2xH791ppsAyaVrenJzsmq3
    GzjA690x32IpYZYrn6PKjNcxEnK9tLlydM9ucLn1FIPjUYPk5X7PAvZt+2+59LNo
    vwVcTMdNFjK8MDn1JqTnBjHhTuhoed6Vf88jRrvmK4jztgXcgqaF
    -----END RSA PRIVATE KEY-----
    """

  /// A device's certificate for an RSA key of 1024 bits, signed with that key. `openssl req -x509`.
  static let weakDevicePEM = """
    -----BEGIN CERTIFICATE-----
    MIICgzCCAeygAwIBAgIUKOL4oKA/ADi8QmVe0IRrzQBZ3f4wDQYJKoZIhvcNAQEL
    BQAwSDEgMB4GCgmSJomT8ixkAQEMEDAxMjM0NTY3ODlhYmNkZWYxFTATBgNVBAoM
    DEFwdXMgRGV2aWNlczENMAsGA1UEAwwEd2VhazAgFw0yNjExMjEyMTIyMzNaGA8y
    MTI2MTAyODIxMjIzM1owSDEgMB4GCgmSJomT8ixkAQEMEDAxMjM0NTY3ODlhYmNk
    ZWYxFTATBgNVBAoMDEFwdXMgRGV2aWNlczENMAsGA1UEAwwEd2VhazCBnzANBgkq
    hkiG9w0BAQEFAAOBjQAwgYkCgYEAw1uT5lHgunB07AEgKtAL3p+Ls/YvXtkjt+aG
    vdA2xuxgyAVDymYfk4jcEHwh6JTrV5Zi8cYP1Al+KqbeUPWAd8d7vkVH8Zz7CJoF
    fSKAho7ggRFIm7LuCwIm1wz+193elDT2txgLJM64WW3yvTxDNpfE7bO0WrmBSsfv
    dj3tt+cCAwEAAaNoMGYwHQYDVR0OBBYEFLEUTAJlCDJpWPDK2g7kgza91YAgMB8G
    A1UdIwQYMBaAFLEUTAJlCDJpWPDK2g7kgza91YAgMA8GA1UdEwEB/wQFMAMBAf8w
    EwYDVR0lBAwwCgYIKwYBBQUHAwIwDQYJKoZIhvcNAQELBQADgYEAoJBhIrGTlv7s
    87Q7U3th47rSVs3U1fT/TbVtJxfA8cZ6QtXWlU1tTjnFiLP3YM4dmv3kdC4jrvPv
    eR5HpxGjzGvBoyDAtmVO5X+inGP5FDxfvOUZK9ScGC9wfK107SRFiRUkWXBUdlCU
    IE0TxzoJYOTXyor47ZD43GDeuQK0YT8=
    -----END CERTIFICATE-----
    """

  static let rsaCertificatePEM = """
    -----BEGIN CERTIFICATE-----
    MIIC+TCCAeGgAwIBAgIULf6WHXMEoeQm9dRRoUm7JN0ipkkwDQYJKoZIhvcNAQEL
    BQAwDDEKMAgGA1UEAwwBeDAeFw0yNjExMjExMDExMzVaFw0yNjExMjQxMDExMzVa
    MAwxCjAIBgNVBAMMAXgwggEiMA0GCSqGSIb3DQEBAQUAA4IBDwAwggEKAoIBAQDO
    idDeTwRZmOPrzNAw09xVVb3UCLZsFdYJh/sRiiz7T/r+tmEAhgVa73P1QgC7/BQP
    TD5uqrcdPMHpYX5nrtZIfD7DaKtIcxWCcdpTBx7AUONWYj+r1ZbPUmgUZZLUTHHo
    e4Bs7P5GDCWkXCPkNNy/pVX7BeXNcIaPrL5nrj8ah9V5+95rrWSeJpevDydSNfkn
    FQPCR9wgEK588rOrnx/gWKkChrbjn2qhh4CkS/tBCuX8bVTupk9V0WdalpSvxK7b
    4aqs0HJehZ3LBYjCfourcNlsrdVr7gu09WK50gzfFFx3iPhKggt8EO8E7WbUyvCl
    zOXWhE1unns56MDOIH6nAgMBAAGjUzBRMB0GA1UdDgQWBBRmcDDSfCk/fWZK+zxU
    NaD8msyPyzAfBgNVHSMEGDAWgBRmcDDSfCk/fWZK+zxUNaD8msyPyzAPBgNVHRMB
    Af8EBTADAQH/MA0GCSqGSIb3DQEBCwUAA4IBAQBnOeRaqEcmcLkbkCbZ5LcBrbRj
    G/dci7wExWCI6rcrogMaL0OxACh59x8eHYYEcRdFp8krSQRwGpuQsP+s/exrjcak
    UrzUifaqdkS1Fl0qUL0Eh8f6SBqKStJ0GDHxwiL2gOMMB3ZRp8r4Pa0GWkUUVhzW
    Csp/H0YZTpzSeaKv2vUWHRsWfPi/UA2Ekg82Wuy+pGjH3zF7D827fz3+uYZdX7vI
    /LNsO/87vJiG/9TNXL70Gc4pm/hCPgs26tUe7b0wM0XO2ku7Lw4/B76iCD2sxTtz
    +S9XJ/lqLyRjb9A1WWrFxBXOa2RWpWU/YX/2Z8ga7V2FPsOVk0zYFBiRRr/Y
    -----END CERTIFICATE-----
    """

  /// 1,700,000,000,000 ms.
  static let nonce: [UInt8] = [
    0, 0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00, 1, 2, 3, 4, 5, 6, 7, 8,
  ]

  /// PKCS#1 v1.5 over SHA-1 of the nonce, by the RSA key.
  static let nonceSignature = hex(
    """
    20d6ce1e3863b6cabd706c03dd011d3906e3d086958a418b0dd7ac9501fc2156f1adfa00dac9fa4046e933d50c30a9c5
    8494de8b594ac3302c8e4993604ee79efd38337213f179c4a6801a3618e79d6650f5a2867448106d068625b3fafc1f8e
    bca769dcb24970383b94a12b0147ab07eef92673efd71b49db7dcb37583e212e7dc6ff3bcfe7085d56920e3484de378b
    1935c2ead4548dd0954c9665a9415b76d79071af62183c9e898a9f8e3ff807078459de2de3638b30646a104b03d427ff
    72e3f176e4223812e8f6ebeeb8eeea8aaad9f82e39f1e2942ee301cb7b3701c38f8d9c7ae462ff3c5a33f5b44794afba
    3961c00626ff193d5294da1d404feaf3
    """)

  /// Bytes from hexadecimal digits; spaces and line ends are ignored.
  static func hex(_ text: String) -> [UInt8] {
    let digits = text.filter { !$0.isWhitespace }.compactMap(\.hexDigitValue)
    return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
  }
}
