// Where the mouse is. It moves sixty times a second, so whoever follows it draws by itself and nothing is rendered anew.

export interface Place {
  row: number; // of the groups in view
  column: number | null;
}

export class Pointer {
  place: Place | null = null;
  private readonly followers = new Set<(place: Place | null) => void>();
  private waiting = false;

  move(place: Place | null): void {
    this.place = place;
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      for (const follow of this.followers) follow(this.place);
    });
  }

  follow(follower: (place: Place | null) => void): () => void {
    this.followers.add(follower);
    return () => void this.followers.delete(follower);
  }
}
