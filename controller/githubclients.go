package controller

import (
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// GitHubClients makes the real clients, those of one App sharing one governor of at most mintsPerMinute registrations.
func GitHubClients(mintsPerMinute int) func(store.Installation) (github.API, error) {
	type app struct {
		server string
		id     int64
	}
	var mu sync.Mutex
	governors := map[app]*github.Governor{}
	return func(in store.Installation) (github.API, error) {
		mu.Lock()
		g, ok := governors[app{in.BaseURL, in.AppID}]
		if !ok {
			g = github.NewGovernor(mintsPerMinute, time.Now)
			governors[app{in.BaseURL, in.AppID}] = g
		}
		mu.Unlock()
		return github.NewClient(github.Config{
			BaseURL: in.BaseURL, AppID: in.AppID, InstallationID: in.InstallationID, Account: in.Account,
			PrivateKey: in.PrivateKey, Now: time.Now, Mint: g,
		})
	}
}
