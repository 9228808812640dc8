package github

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

const (
	restPath  = "/api/v3"  // of GitHub Enterprise Server
	cloudAPI  = "api."     // of github.com and of GHE.com
	cloudHost = ".ghe.com" // GitHub Enterprise Cloud with data residency
)

// CheckBaseURL returns the REST root of a GitHub as it is kept: empty for github.com, else without a slash at its end. It takes
// https only, and plain http where it does not leave this machine.
func CheckBaseURL(text string) (string, error) {
	text = strings.TrimRight(text, "/")
	if text == "" || strings.EqualFold(text, defaultBaseURL) || strings.EqualFold(text, "https://github.com") {
		return "", nil
	}
	u, err := parseBase(text)
	if err != nil {
		return "", err
	}
	host := strings.ToLower(u.Hostname())
	u.Host = strings.ToLower(u.Host)
	switch {
	case u.Scheme == "http" && !Loopback(host):
		return "", errors.New("plain http would show the App's credentials to the network: use https")
	case strings.HasSuffix(host, cloudHost):
		if !strings.HasPrefix(host, cloudAPI) || u.Path != "" {
			return "", errors.New("the base URL of GHE.com is https://api.SUBDOMAIN.ghe.com")
		}
	case u.Path != restPath:
		return "", errors.New("the base URL of GitHub Enterprise Server is https://HOST/api/v3")
	}
	return u.String(), nil
}

// WebURL is the root of the pages that people see, of the GitHub whose REST root is base.
func WebURL(base string) string {
	u, err := parseBase(base)
	if err != nil || base == "" {
		return "https://github.com"
	}
	web := url.URL{Scheme: u.Scheme, Host: u.Host}
	if strings.HasSuffix(u.Host, cloudHost) {
		web.Host = strings.TrimPrefix(u.Host, cloudAPI)
	}
	return web.String()
}

// Loopback says whether a host's name or address is surely this machine.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
