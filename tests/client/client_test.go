package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/client"
	"github.com/zoomies-fleet/zoomies/client/rest"
)

func TestTypedCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	labels := []string{"zoomies"}
	made, err := r.CreatePoolWithResponse(t.Context(), nil, rest.PoolSpec{Name: "linux", InstallationID: r.seed.Installation.ID, Labels: &labels})
	if err != nil {
		t.Fatal(err)
	}
	if made.JSON201 == nil || made.JSON201.Name != "linux" || made.JSON201.Max != 4 {
		t.Fatalf("made %+v", made.JSON201)
	}
	got, err := r.GetPoolWithResponse(t.Context(), made.JSON201.ID)
	if err != nil || got.JSON200.Name != "linux" {
		t.Fatalf("got %v, %v", got, err)
	}
	four := int64(9)
	changed, err := r.UpdatePoolWithResponse(t.Context(), made.JSON201.ID, nil, rest.PoolPatch{Max: &four})
	if err != nil || changed.JSON200.Max != 9 {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if _, err := r.DeletePoolWithResponse(t.Context(), made.JSON201.ID, nil); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsAreProblems(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.GetPoolWithResponse(t.Context(), "pool_none")
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != http.StatusNotFound || p.Detail == "" || p.Fix == "" || p.RequestID == "" {
		t.Errorf("a pool that is not there: %#v", err)
	}
	_, err = r.CreatePoolWithResponse(t.Context(), nil, rest.PoolSpec{Name: "Bad Name", InstallationID: r.seed.Installation.ID})
	if !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity || len(p.Errors) == 0 || !strings.Contains(err.Error(), "name") {
		t.Errorf("a bad name: %v", err)
	}
	_, err = r.client(t, client.Options{Token: "zoo_wrong"}).GetPoolWithResponse(t.Context(), r.seed.Pool.ID)
	if !errors.As(err, &p) || p.Status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %v", err)
	}
	if strings.Contains(fmt.Sprintf("%v %+v", err, p), "zoo_wrong") {
		t.Error("the error shows the token")
	}
	r.interfere(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "<html>a proxy's page</html>", http.StatusForbidden)
		return true
	})
	if _, err = r.GetPoolWithResponse(t.Context(), "x"); !errors.As(err, &p) || p.Status != http.StatusForbidden || strings.Contains(err.Error(), "html") {
		t.Errorf("a proxy's answer: %v", err)
	}
}

func TestListsAreReadToTheirEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	want := map[string]bool{r.seed.Pool.Name: true}
	for i := range 11 {
		name := fmt.Sprintf("pool-%d", i)
		want[name] = true
		if _, err := r.CreatePoolWithResponse(t.Context(), nil, rest.PoolSpec{Name: name, InstallationID: r.seed.Installation.ID}); err != nil {
			t.Fatal(err)
		}
	}
	r.interfere(nil)
	query := url.Values{"limit": {"5"}}
	all, err := client.All[rest.Pool](t.Context(), r.Client, "/api/v1/pools", query)
	if err != nil || len(all) != len(want) {
		t.Fatalf("got %d pools, want %d: %v", len(all), len(want), err)
	}
	for _, p := range all {
		delete(want, p.Name)
	}
	if len(want) > 0 || len(r.requests()) != 3 {
		t.Errorf("missing %v after %d requests", want, len(r.requests()))
	}
	if len(query) != 1 {
		t.Errorf("the caller's query was changed: %v", query)
	}
	n := 0
	for _, err := range client.List[rest.Pool](t.Context(), r.Client, "/api/v1/pools", query) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 {
			break
		}
	}
	if got := len(r.requests()); got != 4 {
		t.Errorf("a list that was left early asked %d times, want once", got-3)
	}
	if _, err := client.All[rest.Pool](t.Context(), r.Client, "/api/v1/pools", url.Values{"cursor": {"nonsense"}}); err == nil {
		t.Error("a bad cursor was taken")
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"https://fleet.example.test": true, "https://fleet.example.test:8443/": true, "http://127.0.0.1:8080": true, "http://[::1]:1": true, "http://localhost": true,
		"http://fleet.example.test": false, "fleet.example.test": false, "": false, "ftp://x": false, "https://user:secret@x": false, "https://x?y=z": false,
	} {
		_, err := client.New(client.Options{Server: address})
		if (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows a password: %v", address, err)
		}
	}
	if _, err := client.New(client.Options{Server: "https://x", Socket: "/y"}); err == nil {
		t.Error("a server and a socket were taken together")
	}
}
