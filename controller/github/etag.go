package github

import (
	"bytes"
	"container/list"
	"io"
	"net/http"
	"sync"
)

const (
	etagBudget   = 16 << 20 // bytes of bodies kept per client
	etagMaxEntry = 1 << 20
)

// etags revalidates lists by ETag. GitHub charges nothing against the primary quota for a 304, so that sweeping
// repositories where nothing moves is free; entries leave least recently used first. GitHub's tags depend on the token,
// so the first sweep after an hourly refresh pays in full.
type etags struct {
	mu    sync.Mutex
	byURL map[string]*list.Element
	order *list.List // front is the most recently used
	size  int
}

type etagEntry struct {
	url, tag string
	header   http.Header
	body     []byte
}

func newETags() *etags { return &etags{byURL: map[string]*list.Element{}, order: list.New()} }

// roundTrip performs a GET, which it may add a header to.
func (c *etags) roundTrip(next http.RoundTripper, req *http.Request) (*http.Response, error) {
	url := req.URL.String()
	known := c.get(url)
	if known != nil {
		req.Header.Set("If-None-Match", known.tag)
	}
	resp, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch {
	case resp.StatusCode == http.StatusNotModified && known != nil:
		resp.Body.Close()
		fresh := *resp
		fresh.Status, fresh.StatusCode = "200 OK", http.StatusOK
		fresh.Header = known.header.Clone()
		fresh.Body = io.NopCloser(bytes.NewReader(known.body))
		fresh.ContentLength = int64(len(known.body))
		return &fresh, nil
	case resp.StatusCode == http.StatusOK && resp.Header.Get("ETag") != "":
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		c.put(&etagEntry{url: url, tag: resp.Header.Get("ETag"), header: resp.Header.Clone(), body: body})
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	return resp, nil
}

func (c *etags) get(url string) *etagEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.byURL[url]
	if !ok {
		return nil
	}
	c.order.MoveToFront(el)
	return el.Value.(*etagEntry) //nolint:forcetypeassert // put puts in nothing else
}

func (c *etags) put(e *etagEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byURL[e.url]; ok {
		c.drop(el)
	}
	if len(e.body) > etagMaxEntry {
		return
	}
	c.byURL[e.url] = c.order.PushFront(e)
	c.size += len(e.body)
	for c.size > etagBudget {
		c.drop(c.order.Back())
	}
}

func (c *etags) drop(el *list.Element) {
	e := c.order.Remove(el).(*etagEntry) //nolint:forcetypeassert // as in get
	delete(c.byURL, e.url)
	c.size -= len(e.body)
}
