package api

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// maxPage is how many objects a page holds at most.
const maxPage = 500

// Page is one page of a list.
type Page[T any] struct {
	Items      []T    `json:"items" nullable:"false" doc:"The objects, in the order asked for"`
	NextCursor string `json:"next_cursor,omitempty" doc:"Ask for the next page with it; absent on the last page"`
}

// PageParams are the parameters of every list.
type PageParams struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"How many objects a page holds at most"`
	Cursor string `query:"cursor" maxLength:"512" doc:"next_cursor of the page before; everything else must be asked as then"`
}

// cursor says where a page ended: the sort key of its last object, and its ID to tell equal keys apart.
type cursor struct {
	Sort string `json:"s"`
	Key  string `json:"k"`
	ID   string `json:"i"`
}

func (c cursor) String() string {
	raw, _ := json.Marshal(c) // strings only
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parseCursor(text, sort string) (c cursor, err error) {
	if text == "" {
		return cursor{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil || c.ID == "" {
		return c, invalid("query.cursor", "the cursor is not one of this list's")
	}
	if c.Sort != sort {
		return c, invalid("query.cursor", "the cursor belongs to a list that was sorted by %.32q", c.Sort)
	}
	return c, nil
}

// keys are how a list that is held in memory whole can be sorted: by name, a text that sorts as the value does.
type keys[T any] map[string]func(T) string

// paginate cuts one page out of all the objects of a list. sort is one of by's names, with a minus in front for the other way round.
func paginate[T any](all []T, p PageParams, sort string, by keys[T], id func(T) string) (Page[T], error) {
	at, err := parseCursor(p.Cursor, sort)
	if err != nil {
		return Page[T]{}, err
	}
	name, down := strings.CutPrefix(sort, "-")
	key := by[name]
	compare := func(a, b cursor) int {
		c := cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID))
		if down {
			return -c
		}
		return c
	}
	of := func(v T) cursor { return cursor{Sort: sort, Key: key(v), ID: id(v)} }
	list := slices.Clone(all)
	if p.Cursor != "" {
		list = slices.DeleteFunc(list, func(v T) bool { return compare(of(v), at) <= 0 })
	}
	slices.SortFunc(list, func(a, b T) int { return compare(of(a), of(b)) })
	page := Page[T]{Items: list}
	if len(list) > p.Limit {
		page.Items = list[:p.Limit]
		page.NextCursor = of(page.Items[p.Limit-1]).String()
	}
	if page.Items == nil {
		page.Items = []T{}
	}
	return page, nil
}
